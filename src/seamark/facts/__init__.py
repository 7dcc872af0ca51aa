"""What the verbs find out, as plain values. Tables for people and JSON for programs are both made from these."""

-- The control database as version 2 made it, in words that SQLite and PostgreSQL both read
CREATE TABLE base (
    table_name TEXT NOT NULL,
    delta_version BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    last_offset BIGINT NOT NULL,
    row_count BIGINT NOT NULL,
    distrusted_at DOUBLE PRECISION,
    PRIMARY KEY (table_name, delta_version)
);
CREATE TABLE block (
    table_name TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    hash TEXT NOT NULL,
    kind TEXT NOT NULL,
    first_offset BIGINT,
    last_offset BIGINT,
    system_time BIGINT NOT NULL,
    slice_hash TEXT,
    slice_size BIGINT,
    checkpoint_hash TEXT,
    PRIMARY KEY (table_name, sequence)
);
CREATE INDEX block_by_hash ON block (table_name, hash);
CREATE INDEX block_by_offset ON block (table_name, last_offset);
CREATE INDEX block_by_time ON block (table_name, system_time);
CREATE TABLE lease (
    name TEXT NOT NULL,
    holder TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE live_run (
    run_id TEXT NOT NULL,
    step TEXT NOT NULL,
    lease_name TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    place TEXT NOT NULL,
    mode TEXT NOT NULL,
    started DOUBLE PRECISION NOT NULL,
    pins TEXT NOT NULL,
    batch INTEGER NOT NULL,
    batches INTEGER NOT NULL,
    PRIMARY KEY (run_id)
);
CREATE INDEX live_run_by_lease ON live_run (lease_name);
CREATE TABLE run (
    run_id TEXT NOT NULL,
    step TEXT NOT NULL,
    mode TEXT NOT NULL,
    started DOUBLE PRECISION NOT NULL,
    ended DOUBLE PRECISION,
    pins TEXT,
    rows_in BIGINT,
    rows_out BIGINT,
    outcome TEXT NOT NULL,
    error TEXT,
    commit_token TEXT,
    outputs TEXT,
    PRIMARY KEY (run_id)
);
CREATE INDEX run_by_step ON run (step, started);
CREATE TABLE seamark_schema (
    version INTEGER NOT NULL
);
CREATE TABLE sink_position (
    sink TEXT NOT NULL,
    table_name TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    target TEXT,
    PRIMARY KEY (sink, table_name)
);
CREATE TABLE staged (
    run_id TEXT NOT NULL,
    object TEXT NOT NULL,
    touched DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run_id, object)
);
CREATE TABLE table_head (
    table_name TEXT NOT NULL,
    dataset_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    head_hash TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    last_offset BIGINT,
    system_time BIGINT NOT NULL,
    data_block TEXT,
    schema_block TEXT,
    transform_block TEXT,
    PRIMARY KEY (table_name),
    UNIQUE (dataset_id)
);
CREATE TABLE transform_input_offset (
    transformation_id TEXT NOT NULL,
    outputs TEXT NOT NULL,
    input_table_name TEXT NOT NULL,
    update_ts_offset DOUBLE PRECISION,
    record_offset BIGINT,
    block_sequence BIGINT,
    block_hash TEXT,
    generation BIGINT NOT NULL,
    PRIMARY KEY (transformation_id, outputs, input_table_name)
);
CREATE TABLE transform_meta (
    transformation_id TEXT NOT NULL,
    outputs TEXT NOT NULL,
    key TEXT NOT NULL,
    process_ts DOUBLE PRECISION NOT NULL,
    is_success BOOLEAN NOT NULL,
    error TEXT,
    attempts INTEGER NOT NULL,
    retry_after DOUBLE PRECISION,
    read_at TEXT,
    whole_key TEXT,
    PRIMARY KEY (transformation_id, outputs, key)
);

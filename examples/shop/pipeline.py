"""A shop: regions, customers, their orders and payments. The views over them are in the folder `views`."""

import seamark as sm

ds = sm.DataStore()  # where the control database, the warehouse and the views are, seamark.toml says

regions = ds.table("regions", "region_id long, title string", key="region_id")
customers = ds.table("customers", "customer_id long, name string, region_id long", key="customer_id")
statuses = ds.table("statuses", "code string, title string", key="code")
orders = ds.table(
    "orders",
    "order_id long, customer_id long not null, status string, placed date not null, amount decimal(9,2)",
    key="order_id",
)
payments = ds.table("payments", "payment_id long, order_id long, method string, amount decimal(9,2)", key="payment_id")

"""The ledger's questions to the database, over its own scratch tables.

`sold`, `taken_mails`, `drawn` and `died` hold what the input, the mail provider, the receipts' files and the dead
letters say; `invoiced` adds `sold` up, and `grouped` adds `invoiced` up by the customers' groups of the report. `moved`
says how the stock moved, code by code, in the order in which that took effect. Dead letters are counted by job id; what
one was about is read from its own message.
"""

from __future__ import annotations

from typing import Final

SCRATCH: Final = """
CREATE TEMP TABLE sold (
    number bigint PRIMARY KEY, invoice text COLLATE "C", stock_code text, quantity integer, unit_price numeric,
    customer text
) ON COMMIT DROP;
CREATE TEMP TABLE taken_mails (key text PRIMARY KEY, invoice text COLLATE "C", customer text, amount numeric)
ON COMMIT DROP;
CREATE TEMP TABLE drawn (path text COLLATE "C", sha256 text, invoice text COLLATE "C", lines int, amount numeric)
ON COMMIT DROP;
CREATE TEMP TABLE died (job_id text, actor text, subject text COLLATE "C", reason text) ON COMMIT DROP;
"""

EXPECTED_INVOICES: Final = """
CREATE TEMP TABLE invoiced ON COMMIT DROP AS
SELECT invoice,
       count(*) AS lines,
       sum(quantity * unit_price) AS amount,
       (array_agg(customer ORDER BY number) FILTER (WHERE customer IS NOT NULL))[1] AS customer
FROM sold GROUP BY invoice;
CREATE TEMP TABLE moved ON COMMIT DROP AS
SELECT line_number, stock_code, quantity, level, nth,
       row_number() OVER story AS place,
       -sum(quantity) OVER story AS sum,
       max(line_number) OVER (PARTITION BY stock_code ORDER BY nth ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
           AS latest_before
FROM shop.stock_moves
WINDOW story AS (PARTITION BY stock_code ORDER BY nth ROWS UNBOUNDED PRECEDING);
CREATE TEMP TABLE grouped ON COMMIT DROP AS
SELECT coalesce((abs(hashtext(customer)::bigint) % 50)::text, 'none') AS customers,
       count(*) AS invoices,
       sum(amount) AS amount
FROM invoiced GROUP BY 1;
CREATE TEMP TABLE charted ON COMMIT DROP AS
SELECT customers, invoices, amount,
       substring(chart FOR 8) = decode('89504e470d0a1a0a', 'hex') AND encode(sha256(chart), 'hex') = sha256 AS is_whole
FROM shop.report_groups;
CREATE INDEX ON moved (line_number);
CREATE INDEX ON died (actor, subject);
CREATE INDEX ON drawn (path);
ANALYZE sold, invoiced, moved, grouped, taken_mails, drawn, died;
"""

DEAD_LETTERS: Final = "SELECT job_id, actor, reason, body FROM smena.dead_letters"

DEAD_BY_REASON: Final = "SELECT reason, count(DISTINCT job_id) FROM died GROUP BY reason ORDER BY reason"

NUMBERS: Final = """
WITH effects AS (
    SELECT job_id
    FROM shop.sales AS sale JOIN sold ON sold.number = sale.line_number
    WHERE (sale.invoice, sale.stock_code, sale.quantity, sale.amount)
        = (sold.invoice, sold.stock_code, sold.quantity, sold.quantity * sold.unit_price)
      AND sold.unit_price > 0
    UNION ALL
    SELECT job_id
    FROM shop.charges AS charge JOIN invoiced USING (invoice)
    WHERE (charge.lines, charge.amount) = (invoiced.lines, invoiced.amount)
)
SELECT (SELECT count(*) FROM sold) + (SELECT count(*) FROM invoiced) AS accepted,
       (SELECT count(DISTINCT job_id) FROM effects) AS effects,
       (SELECT count(DISTINCT job_id) FROM died) AS dead,
       (SELECT count(*) FROM taken_mails) AS mails,
       (SELECT count(*) FROM drawn) AS receipts,
       (SELECT count(DISTINCT line_number) FROM moved) AS stock_moves,
       (SELECT count(*) FROM shop.reports) AS reports,
       (SELECT count(*) FROM charted WHERE is_whole) AS report_groups,
       (SELECT coalesce(sum(amount), 0)::text FROM shop.charges) AS amount
"""

FINDINGS: Final = """
CREATE TEMP TABLE findings ON COMMIT DROP AS
SELECT 'sale_missing' AS kind, sold.number::text AS key
FROM sold
WHERE NOT EXISTS (SELECT FROM shop.sales WHERE line_number = sold.number)
  AND NOT EXISTS (SELECT FROM died WHERE actor = 'sales.record' AND subject = sold.number::text)
UNION ALL
SELECT 'sale_doubled', line_number::text FROM shop.sales GROUP BY line_number HAVING count(*) > 1
UNION ALL
SELECT 'sale_wrong', sale.line_number::text
FROM shop.sales AS sale LEFT JOIN sold ON sold.number = sale.line_number
WHERE (sale.invoice, sale.stock_code, sale.quantity, sale.amount)
      IS DISTINCT FROM (sold.invoice, sold.stock_code, sold.quantity, sold.quantity * sold.unit_price)
   OR sold.unit_price <= 0
UNION ALL
SELECT 'sale_died_without_cause', died.subject
FROM died LEFT JOIN sold ON sold.number::text = died.subject
WHERE died.actor = 'sales.record' AND NOT (died.reason = 'price_not_positive' AND sold.unit_price <= 0) IS TRUE
UNION ALL
SELECT 'charge_missing', invoice
FROM invoiced
WHERE NOT EXISTS (SELECT FROM shop.charges WHERE charges.invoice = invoiced.invoice)
  AND NOT EXISTS (SELECT FROM died WHERE actor = 'payments.charge' AND subject = invoiced.invoice)
UNION ALL
SELECT 'charge_doubled', invoice FROM shop.charges GROUP BY invoice HAVING count(*) > 1
UNION ALL
SELECT 'charge_wrong', charge.invoice
FROM shop.charges AS charge LEFT JOIN invoiced USING (invoice)
WHERE (charge.lines, charge.amount) IS DISTINCT FROM (invoiced.lines, invoiced.amount)
UNION ALL
SELECT 'charge_died_without_cause', subject FROM died WHERE actor = 'payments.charge'
UNION ALL
SELECT 'mail_missing', invoice
FROM invoiced
WHERE customer IS NOT NULL
  AND NOT EXISTS (SELECT FROM taken_mails WHERE taken_mails.invoice = invoiced.invoice)
UNION ALL
SELECT 'mail_doubled', invoice FROM taken_mails GROUP BY invoice HAVING count(*) > 1
UNION ALL
SELECT 'mail_wrong', mail.invoice
FROM taken_mails AS mail LEFT JOIN invoiced USING (invoice)
WHERE (mail.customer, mail.amount) IS DISTINCT FROM (invoiced.customer, invoiced.amount)
UNION ALL
SELECT 'mail_died_without_cause', subject FROM died WHERE actor = 'mail.confirm'
UNION ALL
SELECT 'receipt_missing', invoice
FROM invoiced
WHERE NOT EXISTS (
    SELECT FROM shop.receipts JOIN drawn USING (path) WHERE receipts.invoice = invoiced.invoice
)
UNION ALL
SELECT 'receipt_doubled', invoice FROM drawn GROUP BY invoice HAVING count(*) > 1
UNION ALL
SELECT 'receipt_doubled', invoice FROM shop.receipts GROUP BY invoice HAVING count(*) > 1
UNION ALL
SELECT 'receipt_wrong', coalesce(receipt.invoice, drawn.invoice, drawn.path)
FROM shop.receipts AS receipt
     FULL JOIN drawn USING (path)
     LEFT JOIN invoiced ON invoiced.invoice = receipt.invoice
WHERE drawn.path IS NOT NULL
  AND (receipt.invoice, receipt.sha256, drawn.invoice, drawn.lines, drawn.amount)
      IS DISTINCT FROM (invoiced.invoice, drawn.sha256, invoiced.invoice, invoiced.lines, invoiced.amount)
UNION ALL
SELECT 'receipt_died_without_cause', subject FROM died WHERE actor = 'receipts.render'
UNION ALL
SELECT 'stock_missing', number::text
FROM sold WHERE NOT EXISTS (SELECT FROM moved WHERE line_number = number)
UNION ALL
SELECT 'stock_doubled', line_number::text FROM moved GROUP BY line_number HAVING count(*) > 1
UNION ALL
SELECT 'stock_wrong', line_number::text
FROM moved LEFT JOIN sold ON number = line_number
WHERE (moved.stock_code, moved.quantity, moved.nth, moved.level)
      IS DISTINCT FROM (sold.stock_code, sold.quantity, moved.place, moved.sum)
UNION ALL
SELECT 'stock_out_of_order', line_number::text FROM moved WHERE latest_before > line_number
UNION ALL
SELECT 'stock_level_wrong', coalesce(stock.stock_code, expected.stock_code)
FROM shop.stock
     FULL JOIN (
         SELECT stock_code, count(*) AS moves, -sum(quantity) AS level FROM sold GROUP BY stock_code
     ) AS expected USING (stock_code)
WHERE (stock.moves, stock.level) IS DISTINCT FROM (expected.moves, expected.level)
UNION ALL
SELECT 'stock_died_without_cause', subject FROM died WHERE actor = 'stock.apply'
UNION ALL
SELECT 'report_missing', 'summary' WHERE NOT EXISTS (SELECT FROM shop.reports)
UNION ALL
(SELECT 'report_doubled', report FROM shop.reports ORDER BY report OFFSET 1)
UNION ALL
SELECT 'report_wrong', report
FROM shop.reports,
     (SELECT count(*) AS groups, sum(invoices) AS invoices, sum(amount) AS amount FROM grouped) AS whole
WHERE (reports.groups, failed, reports.invoices, reports.amount)
      IS DISTINCT FROM (whole.groups, 0, coalesce(whole.invoices, 0), coalesce(whole.amount, 0))
UNION ALL
SELECT 'report_group_missing', customers FROM grouped WHERE customers NOT IN (SELECT customers FROM charted)
UNION ALL
SELECT 'report_group_doubled', customers FROM charted GROUP BY customers HAVING count(*) > 1
UNION ALL
SELECT 'report_group_wrong', customers
FROM charted LEFT JOIN grouped USING (customers)
WHERE (charted.invoices, charted.amount, is_whole) IS DISTINCT FROM (grouped.invoices, grouped.amount, true)
UNION ALL
SELECT 'report_died_without_cause', job_id FROM died WHERE actor LIKE 'reports.%'
UNION ALL
SELECT 'unknown_died', job_id
FROM died
WHERE actor NOT LIKE 'reports.%'
  AND actor NOT IN ('sales.record', 'payments.charge', 'mail.confirm', 'receipts.render', 'stock.apply')
"""

FINDINGS_BY_KIND: Final = "SELECT kind, count(*) FROM findings GROUP BY kind ORDER BY kind"

FIRST_FINDINGS: Final = "SELECT kind, key FROM findings ORDER BY kind, key LIMIT 20"

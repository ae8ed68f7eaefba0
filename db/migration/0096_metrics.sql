-- +goose Up
-- Metrics over time: ADR 100. Values are encoded by the package internal/timeseries.

-- Layouts name the values in the rows of metric_samples. used_at is renewed every hour while a portal uses the layout.
CREATE TABLE metric_layouts (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host_id text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    hash    bytea NOT NULL,
    layout  text NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (host_id, hash)
);

-- The values that a host measured until a time of the portal's clock, over some seconds. There is no trigger: metrics wake
-- nobody. A host that is deleted leaves its rows until their age is over.
CREATE TABLE metric_samples (
    host_id   text COLLATE "C" NOT NULL,
    at        timestamptz NOT NULL,
    seconds   real NOT NULL,
    layout_id bigint NOT NULL,
    sample    bytea NOT NULL,
    PRIMARY KEY (host_id, at)
) PARTITION BY RANGE (at);

-- The points of one object over a period, as one host measured them: 1 minute in an hour (tier 1), 10 minutes in a day
-- (tier 2), 2 hours in a month of UTC (tier 3). A row never changes.
CREATE TABLE metric_chunks (
    tier      smallint NOT NULL,
    type      text COLLATE "C" NOT NULL, -- fleet.ResourceType
    object_id text COLLATE "C" NOT NULL,
    start     timestamptz NOT NULL,
    host_id   text COLLATE "C" NOT NULL,
    chunk     bytea NOT NULL,
    PRIMARY KEY (tier, type, object_id, start, host_id)
) PARTITION BY LIST (tier);
CREATE TABLE metric_chunks_hours PARTITION OF metric_chunks FOR VALUES IN (1) PARTITION BY RANGE (start);
CREATE TABLE metric_chunks_days PARTITION OF metric_chunks FOR VALUES IN (2) PARTITION BY RANGE (start);
CREATE TABLE metric_chunks_months PARTITION OF metric_chunks FOR VALUES IN (3) PARTITION BY RANGE (start);

-- Periods whose chunks are being written or complete. after is the last key with chunks, empty: none yet.
CREATE TABLE metric_periods (
    tier     smallint NOT NULL,
    start    timestamptz NOT NULL,
    after    text COLLATE "C" NOT NULL DEFAULT '',
    complete boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tier, start)
);

-- The hosts that a VM has left, so that its samples there are found.
CREATE TABLE metric_moves (
    vm_id   text COLLATE "C" NOT NULL REFERENCES vms ON DELETE CASCADE,
    host_id text COLLATE "C" NOT NULL,
    at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (vm_id, at)
);
CREATE INDEX metric_moves_by_age ON metric_moves (at);

-- +goose StatementBegin
CREATE FUNCTION record_metric_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO metric_moves (vm_id, host_id) VALUES (OLD.id, OLD.host_id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

-- keep_metric_partitions creates the partitions of a table from now until some widths ahead, and drops those that ended
-- before oldest. The name of a partition is that of its table with the time of its start.
CREATE FUNCTION keep_metric_partitions(parent text, unit text, ahead integer, oldest timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    width interval := ('1 ' || unit)::interval;
    begins timestamp;
    part text;
BEGIN
    FOR i IN -1..ahead LOOP
        begins := date_trunc(unit, now() AT TIME ZONE 'UTC') + i * width;
        part := parent || '_' || to_char(begins, 'YYYYMMDD_HH24');
        IF to_regclass(part) IS NULL THEN
            -- A table that is attached locks out no writer, unlike one that is created as a partition.
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', part, parent);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part,
                           begins AT TIME ZONE 'UTC', (begins + width) AT TIME ZONE 'UTC');
        END IF;
    END LOOP;
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent::regclass AND substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz <= oldest
    LOOP
        EXECUTE format('DROP TABLE %I', part);
    END LOOP;
END $$;

-- keep_metrics creates the next partitions and drops what is older than its tier is kept.
CREATE FUNCTION keep_metrics(samples interval, hours interval, days interval, months interval) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM keep_metric_partitions('metric_samples', 'hour', 3, now() - samples),
            keep_metric_partitions('metric_chunks_hours', 'day', 2, now() - hours),
            keep_metric_partitions('metric_chunks_days', 'week', 2, now() - days),
            keep_metric_partitions('metric_chunks_months', 'month', 2, now() - months);
    DELETE FROM metric_layouts WHERE used_at < now() - samples - interval '4 hours';
    DELETE FROM metric_moves WHERE at < now() - samples - interval '4 hours';
    DELETE FROM metric_periods WHERE start < now() - CASE tier WHEN 1 THEN hours WHEN 2 THEN days ELSE months END - interval '62 days';
END $$;
-- +goose StatementEnd
CREATE TRIGGER record_metric_move AFTER UPDATE OF host_id ON vms FOR EACH ROW WHEN (OLD.host_id <> NEW.host_id) EXECUTE FUNCTION record_metric_move();
SELECT keep_metrics('2 hours', '2 days', '35 days', '730 days');

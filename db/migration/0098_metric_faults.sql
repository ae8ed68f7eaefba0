-- +goose Up
-- The newest samples of a host that the portal refused, so that the host's charts can say why they have no values.
CREATE TABLE metric_refusals (
    host_id text PRIMARY KEY REFERENCES hosts ON DELETE CASCADE,
    at      timestamptz NOT NULL DEFAULT now(),
    reason  text NOT NULL
);

-- +goose StatementBegin
-- keep_metric_partitions drops the partitions of a table that ended before oldest, and creates those from now until some
-- widths ahead. On a full disk it creates none, so that the old ones are still dropped. The name of a partition is that of
-- its table with the time of its start.
CREATE OR REPLACE FUNCTION keep_metric_partitions(parent text, unit text, ahead integer, oldest timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    width interval := ('1 ' || unit)::interval;
    begins timestamp;
    part text;
BEGIN
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent::regclass AND substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz <= oldest
    LOOP
        EXECUTE format('DROP TABLE %I', part);
    END LOOP;
    BEGIN
        FOR i IN -1..ahead LOOP
            begins := date_trunc(unit, now() AT TIME ZONE 'UTC') + i * width;
            part := parent || '_' || to_char(begins, 'YYYYMMDD_HH24');
            IF to_regclass(part) IS NULL AND (begins + width) AT TIME ZONE 'UTC' > oldest THEN
                -- A table that is attached locks out no writer, unlike one that is created as a partition.
                EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', part, parent);
                EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part,
                               begins AT TIME ZONE 'UTC', (begins + width) AT TIME ZONE 'UTC');
            END IF;
        END LOOP;
    EXCEPTION
        WHEN disk_full THEN RAISE WARNING 'no partition of % was created: %', parent, SQLERRM;
    END;
END $$;
-- +goose StatementEnd

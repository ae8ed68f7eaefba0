-- +goose Up
-- The audit is a table a month: what has served its time is dropped with its indexes, however much it is. What there is already stays together.
ALTER TABLE audit RENAME TO audit_before;
DROP TRIGGER audit_stays ON audit_before;
DROP TRIGGER audit_is_not_emptied ON audit_before;
DROP INDEX audit_by_subject, audit_by_age;
ALTER TABLE audit_before DROP CONSTRAINT audit_pkey, ALTER COLUMN id DROP IDENTITY;
CREATE SEQUENCE audit_ids;
SELECT setval('audit_ids', (SELECT COALESCE(max(id), 0) + 1 FROM audit_before), false);
CREATE TABLE audit (
    id      bigint NOT NULL DEFAULT nextval('audit_ids'),
    at      timestamptz NOT NULL DEFAULT now(),
    actor   text NOT NULL,
    user_id text,
    address text NOT NULL DEFAULT '',
    action  text NOT NULL,
    subject text COLLATE "C" NOT NULL,
    name    text NOT NULL DEFAULT '',
    detail  text NOT NULL DEFAULT '',
    PRIMARY KEY (at, id)
) PARTITION BY RANGE (at);
ALTER SEQUENCE audit_ids OWNED BY audit.id;
CREATE INDEX audit_by_subject ON audit (subject, id DESC);
CREATE TABLE audit_rest PARTITION OF audit DEFAULT; -- of a month that nobody made in time: no line is ever refused
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_stays();
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();

-- audit_month is the beginning of a month of UTC, some months from now.
-- +goose StatementBegin
CREATE FUNCTION audit_month(away integer) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT (date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => away)) AT TIME ZONE 'UTC'
$$;

DO $$ BEGIN
    EXECUTE format('ALTER TABLE audit ATTACH PARTITION audit_before FOR VALUES FROM (MINVALUE) TO (%L)', audit_month(1));
END $$;

-- make_audit makes the table of that month, where there is none.
CREATE FUNCTION make_audit(away integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE part text := 'audit_' || to_char(audit_month(away) AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
    IF to_regclass(part) IS NULL THEN
        EXECUTE format('CREATE TABLE %I PARTITION OF audit FOR VALUES FROM (%L) TO (%L)', part, audit_month(away), audit_month(away + 1));
        EXECUTE format('CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION audit_stays()', part);
    END IF;
EXCEPTION WHEN check_violation OR invalid_object_definition THEN
    NULL; -- lines of that month are in audit_rest or audit_before, and stay there
END $$;

-- keep_audit makes the tables of this month and the next three, and drops those all of whose lines are older than the last months that are to be kept.
CREATE FUNCTION keep_audit(months integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE part text;
BEGIN
    FOR away IN 0..3 LOOP
        PERFORM make_audit(away);
    END LOOP;
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'audit'::regclass AND substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz <= audit_month(-months)
    LOOP
        EXECUTE format('DROP TABLE %I', part);
    END LOOP;
    DELETE FROM audit_rest WHERE at < audit_month(-months);
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit_before FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit_rest FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();
SELECT keep_audit(1200);

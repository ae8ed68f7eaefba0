-- +goose Up
-- How each cell of a matrix was in the last day: in which tone it ended a quarter of an hour, and the worst one in it. A row stands for a
-- quarter in which the tone changed; in the others it was as at the end of the one before. So a cell that flaps has 96 rows a day, and one that
-- does not has one. Tones: 0 is well, 1 wants a look, 3 is bad, as package fleet ranks them; 2, unknown, is the host's silence.
CREATE TABLE cell_quarters (
    noun      text COLLATE "C" NOT NULL,
    object_id text NOT NULL,
    host_id   text NOT NULL,
    quarter   timestamptz NOT NULL,
    worst     smallint NOT NULL,
    last      smallint NOT NULL,
    PRIMARY KEY (noun, object_id, host_id, quarter),
    FOREIGN KEY (noun, object_id, host_id) REFERENCES assignments ON DELETE CASCADE
);

-- When nothing was known of a host and all that it has, until it was heard again. That of now is not here: it is told by its session.
CREATE TABLE host_silences (
    host_id text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    since   timestamptz NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (host_id, since)
);

-- +goose StatementBegin
-- cell_tone is how a cell is drawn while its host is heard, as package policy judges it; but VMs that starve there are no matter of the cell's.
CREATE FUNCTION cell_tone(noun text, said text, used smallint, faulty boolean) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (CASE
        WHEN noun <> 'pool' THEN CASE WHEN faulty THEN 3 WHEN said = 'active' THEN 0 ELSE 1 END
        WHEN said = 'active' THEN CASE WHEN used >= 97 THEN 3 WHEN faulty OR used >= 90 THEN 1 ELSE 0 END
        WHEN said IN ('failed', 'stalled') THEN 3
        ELSE 1 END)::smallint
$$;

CREATE FUNCTION keep_quarter() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was smallint;
    tone smallint := cell_tone(NEW.noun, NEW.said, NEW.used_percent, NEW.faulty);
BEGIN
    IF NEW.status IS NULL THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.status IS NOT NULL THEN
        was := cell_tone(OLD.noun, OLD.said, OLD.used_percent, OLD.faulty);
    END IF;
    IF was IS DISTINCT FROM tone THEN
        INSERT INTO cell_quarters AS q (noun, object_id, host_id, quarter, worst, last)
        VALUES (NEW.noun, NEW.object_id, NEW.host_id, date_bin('15 minutes', now(), 'epoch'), GREATEST(was, tone), tone)
        ON CONFLICT (noun, object_id, host_id, quarter) DO UPDATE SET worst = GREATEST(q.worst, EXCLUDED.worst), last = EXCLUDED.last;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER keep_quarter AFTER INSERT OR UPDATE OF status ON assignments FOR EACH ROW EXECUTE FUNCTION keep_quarter();

-- What is there already is known from now on.
INSERT INTO cell_quarters
SELECT a.noun, a.object_id, a.host_id, date_bin('15 minutes', now(), 'epoch'), t.tone, t.tone
FROM assignments a CROSS JOIN LATERAL (SELECT cell_tone(a.noun, a.said, a.used_percent, a.faulty) AS tone) t WHERE a.status IS NOT NULL;

-- +goose Up
-- What VMs are found by besides their names and ids: MAC and IP addresses, and labels as "key=value". PostgreSQL keeps it by
-- itself, a narrow row a word, so that also the beginning of a word is found by index; nothing else writes it.
CREATE TABLE vm_words (
    vm_id text COLLATE "C" NOT NULL REFERENCES vms ON DELETE CASCADE,
    kind  text COLLATE "C" NOT NULL CONSTRAINT vm_word_kind_known CHECK (kind IN ('mac', 'ip', 'label')),
    word  text COLLATE "C" NOT NULL,
    PRIMARY KEY (vm_id, kind, word)
);
CREATE INDEX vm_words_by_word ON vm_words (word, kind, vm_id);

-- words_of lists the words of a VM, some twice. What a host reports is cut: an index takes no row above 2.7 kB, and no report
-- must fail by that.
-- +goose StatementBegin
CREATE FUNCTION words_of(spec jsonb, status jsonb, labels jsonb) RETURNS TABLE (kind text, word text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 'mac', lower(mac #>> '{}') FROM jsonb_path_query(spec, '$.nics[*].mac') AS mac
    UNION ALL SELECT 'mac', lower(left(mac #>> '{}', 64)) FROM jsonb_path_query(status, '$.nics[*].mac') AS mac
    UNION ALL SELECT 'ip', lower(left(ip #>> '{}', 64)) FROM jsonb_path_query(status, '$.nics[*].addresses[*]') AS ip
    UNION ALL SELECT 'label', key || '=' || value FROM jsonb_each_text(labels)
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION keep_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM vm_words w WHERE w.vm_id = NEW.id
            AND NOT EXISTS (SELECT 1 FROM words_of(NEW.spec, NEW.status, NEW.labels) n WHERE n.kind = w.kind AND n.word = w.word);
    END IF;
    INSERT INTO vm_words (vm_id, kind, word)
    SELECT NEW.id, n.kind, n.word FROM words_of(NEW.spec, NEW.status, NEW.labels) n ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
-- +goose StatementEnd

INSERT INTO vm_words (vm_id, kind, word)
SELECT v.id, w.kind, w.word FROM vms v, words_of(v.spec, v.status, v.labels) w ON CONFLICT DO NOTHING;

CREATE TRIGGER keep_words AFTER INSERT ON vms FOR EACH ROW EXECUTE FUNCTION keep_words();
-- Reports come all the time; most change no word.
CREATE TRIGGER keep_words_change AFTER UPDATE OF spec, status, labels ON vms FOR EACH ROW
    WHEN (OLD.spec->'nics' IS DISTINCT FROM NEW.spec->'nics' OR OLD.status->'nics' IS DISTINCT FROM NEW.status->'nics' OR OLD.labels <> NEW.labels)
    EXECUTE FUNCTION keep_words();

DROP INDEX vms_by_address;

-- fleet.VM.NeedsAttention, if the host is heard; a test holds the two together.
ALTER TABLE vms ADD COLUMN attention boolean NOT NULL GENERATED ALWAYS AS (
    deleted_at IS NULL AND status IS NOT NULL AND observed_generation > 0 AND generation <= observed_generation
    AND (COALESCE(status->>'power', '') IN ('absent', 'crashed') OR COALESCE(status->>'error', '') <> '' AND NOT (
        COALESCE(status->>'errorOf', '') IN ('vm.start', 'vm.shutdown', 'vm.stop', 'vm.pause', 'vm.resume')
        AND COALESCE(spec->>'power' = status->>'power', false)))) STORED;
CREATE INDEX vms_in_need ON vms (name, id) WHERE attention;
DROP INDEX vms_counted;
CREATE INDEX vms_counted ON vms (host_id, project_id, heard) INCLUDE (cpus, memory_mib, attention);

-- +goose Up
-- What lists look for in the middle and at the end of words, and by who asked and what for, is found by index.

-- pieces_of is every three characters of a word that follow one another, with a mark before its beginning and one behind its end: a word
-- that fits a pattern has all pieces of the pattern's text. browse.pieces is the same for patterns; a test holds the two together.
-- +goose StatementBegin
CREATE FUNCTION pieces_of(word text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 100 AS $$
    SELECT ARRAY(SELECT substr(m.word, i, 3) FROM (SELECT chr(2) || word || chr(3) AS word) m, generate_series(1, length(m.word) - 2) i)
$$;
-- +goose StatementEnd

-- The lists of what is new in an index, through which each search goes, stay short: other changes of a VM than its name write here as well.
CREATE INDEX vms_by_piece ON vms USING gin (pieces_of(name)) WITH (gin_pending_list_limit = 256);
CREATE INDEX vm_words_by_piece ON vm_words USING gin (pieces_of(word)) WITH (gin_pending_list_limit = 256);

-- Who asked and what for, newest first. A task comes in here once, when it has ended: those that have not are few, and tasks_open has
-- them. A part of a task stays out where its project's list shows the whole. Patterns compare byte by byte, whatever the database's locale is.
CREATE INDEX tasks_by_kind ON tasks (kind text_pattern_ops, id DESC) WHERE listed AND state IN ('done', 'failed', 'cancelled', 'unknown');
CREATE INDEX tasks_by_creator ON tasks (created_by text_pattern_ops, id DESC) WHERE listed AND state IN ('done', 'failed', 'cancelled', 'unknown');

package db_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/pressly/goose/v3"

	"quantix/db"
	"quantix/internal/testkit"
)

// The upgrade turns jobs into tasks with the same IDs, so that links stay valid. It turns bulk actions into parent
// tasks.
func TestUpgradeTurnsJobsIntoTasks(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabaseURL(t)
	conn, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	before, err := goose.NewProvider(goose.DialectPostgres, conn, os.DirFS("migration"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.UpTo(t.Context(), 14); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`INSERT INTO hosts (id, name) VALUES ('h', 'h')`,
		`INSERT INTO projects (id, name) VALUES ('p', 'p')`,
		`INSERT INTO users (id, name, role, password_hash) VALUES ('mia', 'mia', 'operator', '')`,
		`INSERT INTO jobs (id, host_id, project_id, kind, subject, subject_name, generation, state, retries, attempt, created_by, user_id, error, ended_at)
			SELECT id, 'h', 'p', kind, subject, 'web', 3, state, retries, 1, 'mia', 'mia', error, CASE WHEN state = 'failed' THEN now() END
			FROM (VALUES ('1', 'vm.start', 'vm:a', 'failed', 0, 'no'), ('2', 'vm.apply', 'vm:a', 'queued', 2, 'away'), ('3', 'console.open', 'vm:a', 'running', 0, ''),
				('4', 'vm.start', 'vm:b', 'running', 0, '')) AS j (id, kind, subject, state, retries, error)`,
		`INSERT INTO bulk_actions (id, user_id, action, results) VALUES
			('many', 'mia', 'start', '[{"vm":"a","name":"a","task":"1"},{"vm":"c","name":"c","error":"Only a VM that is stopped can be started."},{"vm":"b","name":"b","task":"4"}]'),
			('old', 'mia', 'pause', '[{"vm":"z","name":"z","task":"long gone"}]')`,
	} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		`SELECT string_agg(id || ' ' || COALESCE(task_id, 'none'), ', ' ORDER BY id) FROM jobs`: "1 1, 2 2, 3 none, 4 4",
		// Jobs that existed before the upgrade have these tasks.
		`SELECT string_agg(concat_ws(' ', id, parent_id, kind, subject, state, project_id, user_id, error), ', ' ORDER BY id) FROM tasks WHERE length(id) = 1`:           "1 many vm.start vm:a failed p mia no, 2 vm.apply vm:a queued p mia away, 4 many vm.start vm:b running p mia ",
		`SELECT string_agg(id, ', ') FROM tasks WHERE retry_at IS NOT NULL`:                                                                                              "2",
		`SELECT concat_ws(' ', subject, subject_name, state, progress, steps->>'failed', steps->>'refused', steps->>'running', created_by) FROM tasks WHERE id = 'many'`: "task:many 3 VMs running 66 2 1 1 mia",
		`SELECT concat_ws(' ', subject_name, state, error) FROM tasks WHERE parent_id = 'many' AND subject = ''`:                                                         "c failed Only a VM that is stopped can be started.",
		`SELECT state || ' ' || (ended_at IS NOT NULL)::text FROM tasks WHERE id = 'old'`:                                                                                "cancelled true",
	} {
		var got string
		if err := conn.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s:\n%q %v, want\n%q", query, got, err, want)
		}
	}
}

package control

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// Every role that may release VMs sees all projects today, so only this test has an actor who does not see the VM.
func TestHiddenVMNotReportedAsReleased(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	hidden, released := fleet.NewID[fleet.VMID](), fleet.NewID[fleet.VMID]()
	for _, sql := range []string{
		`INSERT INTO projects (id, name) VALUES ('p', 'hidden')`,
		`INSERT INTO hosts (id, name, key_hash) VALUES ('h1', 'h1', 'k1'), ('h2', 'h2', 'k2')`,
		`INSERT INTO vms (id, project_id, host_id, name, labels, description, spec) VALUES ('` + string(hidden) + `', 'p', 'h1', 'web', '{}', '', '{"cpus":1,"memoryMiB":1}')`,
		`INSERT INTO found_vms (host_id, id, name, status) VALUES ('h2', '` + string(hidden) + `', 'twin', '{}'), ('h2', '` + string(released) + `', 'free', '{}')`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[fleet.VMID]fleet.ErrorCode{hidden: fleet.NotFound, released: fleet.Conflict} {
		err := releasedAlreadyError(t.Context(), db.New(pool), id, store.NotFoundError(pgx.ErrNoRows, "VM"))
		if fleet.CodeOf(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

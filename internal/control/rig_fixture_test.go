package control_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

// hostFixture is a Control with one joined host. The test acts as the host's agent.
type hostFixture struct {
	*control.Control
	t     *testing.T
	pool  *pgxpool.Pool
	hub   *notify.Hub
	agent fleet.Actor
	seq   int64
}

func newHostFixture(t *testing.T) *hostFixture {
	t.Helper()
	t.Parallel()
	pool := testkit.DB(t)
	hub := notify.NewHub()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		hub.Listen(ctx, pool.Config().ConnConfig, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() { cancel(); <-done })
	r := &hostFixture{Control: control.New(pool, control.Options{Hub: hub}), t: t, pool: pool, hub: hub}
	r.agent = r.addHost("h1")
	r.sendHello("one", "here")
	return r
}

// drainHub waits until the hub has received all notifications sent so far.
func (r *hostFixture) drainHub() {
	r.t.Helper()
	const now = "test:now"
	sub := r.hub.Subscribe(now)
	defer sub.Close()
	for late := time.After(30 * time.Second); ; {
		r.execSQL(`SELECT pg_notify('quantix', $1)`, now) // repeated, because the listener may start only now
		select {
		case <-sub.C:
			if slices.Contains(sub.TakeKeys(), now) {
				return
			}
		case <-late:
			r.t.Fatal("nothing is online")
		}
	}
}

func (r *hostFixture) addHost(name string) fleet.Actor {
	id := fleet.NewID[fleet.HostID]()
	r.execSQL(`INSERT INTO hosts (id, name) VALUES ($1, $2)`, id, name)
	r.execSQL(`INSERT INTO host_sessions (host_id) VALUES ($1)`, id)
	return fleet.Actor{HostID: id, Name: "host " + name, Address: "192.0.2.1"}
}

func (r *hostFixture) execSQL(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatal(err)
	}
}

func queryValue[T any](r *hostFixture, sql string, args ...any) T {
	r.t.Helper()
	var v T
	if err := r.pool.QueryRow(r.t.Context(), sql, args...).Scan(&v); err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *hostFixture) sendHello(instance, fingerprint string) {
	r.t.Helper()
	answer, err := r.Hello(r.t.Context(), r.agent, wire.Hello{Instance: instance, Fingerprint: fingerprint})
	if err != nil {
		r.t.Fatal(err)
	}
	r.agent.Session, r.seq = answer.Session, answer.SeqBase
}

func (r *hostFixture) nextSeq() int64 { r.seq++; return r.seq }

func (r *hostFixture) reportState(digest string, vms ...wire.VMReport) wire.ReportAnswer {
	r.t.Helper()
	answer, err := r.Report(r.t.Context(), r.agent, wire.Report{
		Seq: r.nextSeq(), Digest: digest, State: &wire.State{Host: fleet.HostStatus{Connected: true}, VMs: vms},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// addVM adds a VM with a queued vm.apply, as CreateVM does.
func (r *hostFixture) addVM(name string) fleet.VMID {
	project := queryValue[string](r, `INSERT INTO projects (id, name) VALUES (gen_random_uuid()::text, gen_random_uuid()::text) RETURNING id`)
	id := fleet.NewID[fleet.VMID]()
	r.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec) VALUES ($1, $2, $3, $4, '{"power":"running","cpus":1,"memoryMiB":128,"firmware":"bios"}')`,
		id, project, r.agent.HostID, name)
	r.queueVMJob(id, fleet.VMApply)
	return id
}

// defaultNICSQL returns SQL for a part of a spec: one NIC on the network "default".
func defaultNICSQL(mac string) string {
	return `jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('mac', '` + mac + `', 'networkId', (SELECT id FROM networks WHERE name = 'default'))))`
}

func (r *hostFixture) queueVMJob(id fleet.VMID, kind fleet.JobKind) {
	testkit.TaskWithJob{Host: r.agent.HostID, Kind: kind, Subject: fleet.SubjectVM(id)}.Add(r.t, r.pool)
}

func (r *hostFixture) claimJobs() []wire.Work {
	r.t.Helper()
	claim, err := r.Claim(r.t.Context(), r.agent, wire.ClaimRequest{Max: 8}, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return claim.Jobs
}

func (r *hostFixture) finishJob(w wire.Work, f wire.Finish) error {
	f.Epoch, f.Generation = w.Epoch, w.Generation
	if f.Seq == 0 {
		f.Seq = r.nextSeq()
	}
	_, _, err := r.Finish(r.t.Context(), r.agent, w.ID, f)
	return err
}

func wantCode(t *testing.T, err error, code fleet.ErrorCode) {
	t.Helper()
	if fleet.CodeOf(err) != code {
		t.Fatalf("got %v, want a refusal of kind %s", err, code)
	}
}

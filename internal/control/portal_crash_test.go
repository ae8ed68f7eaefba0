//go:build ordeal

package control_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// portalProcess simulates the process of a portal. After its end, no connection of the portal sends a message to the
// database.
type portalProcess struct {
	mu             sync.Mutex
	statementsLeft int // statements until the end, including the last one that is sent; 0: no end
	ended          bool
	conns          []net.Conn
}

var errProcessEnded = errors.New("the portal's process has ended")

func (l *portalProcess) dialDatabase(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns = append(l.conns, c); l.ended {
		c.Close()
		return nil, errProcessEnded
	}
	return crashConn{c, l}, nil
}

// crashBefore ends the process before its nth statement from now on.
func (l *portalProcess) crashBefore(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statementsLeft = n
}

// stopWithoutCrash ends the process. killed reports whether the process had crashed before.
func (l *portalProcess) stopWithoutCrash() (killed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	killed, l.ended = l.ended, true
	for _, c := range l.conns {
		c.Close()
	}
	return killed
}

// shouldSend reports whether the process is still alive and may send the message. It ends the process before the
// statement chosen by crashBefore.
func (l *portalProcess) shouldSend(message []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || !executesStatement(message) {
		return !l.ended
	}
	if l.statementsLeft--; l.statementsLeft != 0 {
		return true
	}
	l.ended = true
	for _, c := range l.conns {
		c.Close()
	}
	return false
}

// executesStatement reports whether a message of PostgreSQL's protocol makes the server execute a statement. A message
// consists of a type letter, a length and a body.
func executesStatement(message []byte) bool {
	for len(message) >= 5 && message[0] != 0 {
		if message[0] == 'E' || message[0] == 'Q' {
			return true
		}
		message = message[min(len(message), 1+int(binary.BigEndian.Uint32(message[1:]))):]
	}
	return false
}

type crashConn struct {
	net.Conn
	process *portalProcess
}

func (c crashConn) Write(b []byte) (int, error) {
	if !c.process.shouldSend(b) {
		return 0, errProcessEnded
	}
	return c.Conn.Write(b)
}

// crashFixture is a libraryFixture that runs each step of a request with portals that crash before a chosen statement.
type crashFixture struct {
	*libraryFixture
	crashPointDistance int // distance between crash points of a step with many statements; 1: before each statement; 0: no crash
	crashPoints        int
	watchedSQL         string // SQL that returns all rows that a portal writes for a request
}

func newCrashFixture(t *testing.T, every int) *crashFixture {
	m := &crashFixture{libraryFixture: newLibraryFixture(t), crashPointDistance: every}
	var each []string
	for table, without := range map[string]string{
		"vms": "", "jobs": "lease_until", "tasks": "", "job_waits": "", "audit": "", "made_disks": "", "vm_orders": "", "vm_macs": "", "idempotency": "", "assignments": "",
		"images": "", "image_versions": "", "image_copies": "", "templates": "", "template_versions": "", "transfers": "",
	} {
		each = append(each, "SELECT '"+table+"' AS what, to_jsonb(t) - '"+without+"' AS row FROM "+table+" t")
	}
	slices.Sort(each)
	m.watchedSQL = "SELECT COALESCE(jsonb_agg(what || ' ' || row::text ORDER BY what, row::text), '[]') FROM (" + strings.Join(each, " UNION ALL ") + ") all_of_it"
	return m
}

func (m *crashFixture) watchedRows() []string {
	m.t.Helper()
	return queryValue[[]string](&hostFixture{t: m.t, pool: m.pool}, m.watchedSQL)
}

// wantUnchanged fails the test if the watched rows differ from before.
func (m *crashFixture) wantUnchanged(when string, before []string) {
	m.t.Helper()
	now := m.watchedRows()
	if slices.Equal(now, before) {
		return
	}
	other := func(have, not []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(have), func(s string) bool { return slices.Contains(not, s) }), "\n")
	}
	m.t.Fatalf("%s: there is\n%s\nand was\n%s", when, other(now, before), other(before, now))
}

// startPortal returns a portal that crashes before its nth statement, or never if n is 0. end stops the portal and
// reports whether it had crashed.
func (m *crashFixture) startPortal(n int) (portal *control.Control, end func() (killed bool)) {
	m.t.Helper()
	l := &portalProcess{}
	settings := m.pool.Config()
	settings.ConnConfig.DialFunc = l.dialDatabase
	settings.MaxConns, settings.MinIdleConns = 1, 0
	ready := settings.AfterConnect
	settings.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		// Wait until PostgreSQL has noticed the end of the previous portal and has released its locks.
		if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(1, 1)`); err != nil {
			return err
		}
		return ready(ctx, conn)
	}
	pool, err := pgxpool.NewWithConfig(m.t.Context(), settings)
	if err == nil {
		err = pool.Ping(m.t.Context())
	}
	if err != nil {
		m.t.Fatal(err)
	}
	l.crashBefore(n)
	return control.New(pool, control.Options{}), func() bool {
		killed := l.stopWithoutCrash()
		pool.Close()
		return killed
	}
}

// maxStatementsCrashedEach is the number of statements at the start of a step that are all crash points. Of the later
// statements only some are, at crashPointDistance.
const maxStatementsCrashedEach = 6

// wantCrashSafe runs a step of the request again and again, with a portal that crashes at a later statement each time,
// until a portal completes the step. A step in one transaction must leave nothing after a crash. If pass is set, the
// step has several transactions, and some of them may be complete.
func (m *crashFixture) wantCrashSafe(what string, pass bool, do func(context.Context, *control.Control) error) {
	m.t.Helper()
	for n := min(1, m.crashPointDistance); ; n++ {
		if n > maxStatementsCrashedEach {
			n += m.crashPointDistance - 1
		}
		portal, end := m.startPortal(n)
		before := m.watchedRows()
		err := do(m.t.Context(), portal)
		killed := end()
		if !killed && err != nil {
			m.t.Fatalf("%s: %v", what, err)
		}
		if killed {
			m.crashPoints++
		}
		if !killed || err == nil && !pass { // the statement after the commit only sends notifications
			m.markOnline()
			return
		}
		if !pass {
			m.wantUnchanged(fmt.Sprintf("%s, ended before statement %d", what, n), before)
		}
	}
}

// wantRepeatable repeats a completed step, as a client does that lost the response, and checks that nothing changes.
func (m *crashFixture) wantRepeatable(what string, do func(context.Context, *control.Control) error) {
	m.t.Helper()
	if m.crashPointDistance == 0 {
		return
	}
	before := m.watchedRows()
	portal, end := m.startPortal(0)
	defer end()
	if err := do(m.t.Context(), portal); err != nil && fleet.CodeOf(err) != fleet.Conflict {
		m.t.Fatalf("%s, again: %v", what, err)
	}
	m.wantUnchanged(what+", again", before)
	m.crashPoints++
}

// sendRequest sends the request with an idempotency key, as the API does, and checks that a repeated request has the
// same response.
func (m *crashFixture) sendRequest(do portalRequest) {
	m.t.Helper()
	var firstAnswer string
	ask := func(ctx context.Context, portal *control.Control) error {
		answer, err := portal.RunOnce(ctx, chief, requestKey("order", "it"), func(ctx context.Context) ([]byte, error) {
			answer, err := do(ctx, portal)
			if err != nil {
				return nil, err
			}
			return json.Marshal(answer)
		})
		if err == nil && firstAnswer != "" && firstAnswer != string(answer) {
			m.t.Errorf("the repeated request returns %s instead of %s", answer, firstAnswer)
		}
		firstAnswer = string(answer)
		return err
	}
	m.wantCrashSafe("it is asked for", false, ask)
	m.wantRepeatable("it is asked for", ask)
}

// maxJobRounds limits the rounds of claims. A job that is still queued after them would never run.
const maxJobRounds = 12

// runJobs starts pending children, claims jobs for both hosts and finishes them until no job is left.
func (m *crashFixture) runJobs() {
	m.t.Helper()
	for range maxJobRounds {
		if m.countRows("vm_orders") > 0 {
			m.wantCrashSafe("what waits begins", true, func(ctx context.Context, portal *control.Control) error {
				return portal.BeginTasks(ctx, fleet.SystemActor)
			})
		}
		work := map[fleet.HostID][]wire.Work{}
		for _, h := range []fleet.HostID{m.h1, m.h2} {
			work[h] = m.claimJobs(h)
		}
		if len(work[m.h1])+len(work[m.h2]) == 0 {
			return
		}
		for _, sends := range []bool{false, true} { // a receiver finishes only after its sender
			for _, h := range slices.Sorted(maps.Keys(work)) {
				for _, w := range work[h] {
					if (w.Kind == fleet.VolumeSend) == sends {
						m.finishJob(h, w)
					}
				}
			}
		}
	}
	m.t.Fatalf("after %d rounds there are still open jobs", maxJobRounds)
}

// claimJobs returns the host's claimed jobs. Jobs claimed from a portal that crashed before it responded are queued
// again when their leases expire.
func (m *crashFixture) claimJobs(host fleet.HostID) []wire.Work {
	m.t.Helper()
	if m.countRows("jobs WHERE state = 'queued' AND run_after <= now() AND host_id = '"+string(host)+"'") == 0 {
		return nil
	}
	var work []wire.Work
	claim := func(ctx context.Context, portal *control.Control) error {
		got, err := portal.Claim(ctx, m.agents[host], wire.ClaimRequest{Max: 16}, 0)
		work = got.Jobs
		return err
	}
	m.wantCrashSafe("work is taken", false, claim)
	if lost := work; m.crashPointDistance > 0 && len(lost) > 0 {
		m.execSQL(`UPDATE jobs SET lease_until = now() - interval '1 minute' WHERE state = 'running' AND host_id = $1`, host)
		m.wantCrashSafe("what was taken is given back", true, func(ctx context.Context, portal *control.Control) error {
			return portal.RecoverExpiredJobs(ctx, fleet.SystemActor)
		})
		// Skip the retry delay.
		m.execSQL(`UPDATE jobs SET run_after = now() WHERE state = 'queued' AND run_after > now() AND run_after < now() + interval '1 hour'`)
		m.wantCrashSafe("work is taken", false, claim)
		if len(work) != len(lost) {
			m.t.Fatalf("of the claimed jobs %+v, only %+v come back", lost, work)
		}
	}
	for _, w := range work {
		if n := m.countRows("jobs j, jobs of WHERE j.id = '" + string(w.ID) + "' AND of.task_id = j.task_id AND of.kind LIKE 'volume.%' AND of.state IN ('queued', 'running')"); w.Kind == fleet.VMApply && n > 0 {
			m.t.Fatalf("a VM is created while %d of its disks are being created", n)
		}
	}
	return work
}

// finishJob reports the end of the host's job.
func (m *crashFixture) finishJob(host fleet.HostID, w wire.Work) {
	m.t.Helper()
	m.seq[host]++
	f := m.finishOfJob(host, w)
	f.Outcome, f.Epoch, f.Seq, f.Generation = wire.Done, w.Epoch, m.seq[host], w.Generation
	finish := func(ctx context.Context, portal *control.Control) error {
		_, _, err := portal.Finish(ctx, m.agents[host], w.ID, f)
		return err
	}
	m.wantCrashSafe(string(w.Kind)+" is done", false, finish)
	m.wantRepeatable(string(w.Kind)+" is done", finish)
}

// finishOfJob returns the host's result for the job.
func (m *crashFixture) finishOfJob(host fleet.HostID, w wire.Work) wire.Finish {
	m.t.Helper()
	if ref, ok := w.Subject.Volume(); ok {
		var s fleet.PoolStatus
		if err := m.pool.QueryRow(m.t.Context(), `SELECT status FROM assignments WHERE pool_id = $1 AND host_id = $2`, ref.PoolID, host).Scan(&s); err != nil {
			m.t.Fatal(err)
		}
		s.Volumes = append(s.Volumes, fleet.Volume{Name: ref.Volume, Path: "/v/" + ref.Volume, Format: "qcow2", CapacityBytes: 1 << 20, SHA256: someSHA256})
		return wire.Finish{Pool: &s}
	}
	s := fleet.VMStatus{Power: fleet.Stopped}
	if now := m.getVM(w.VM.ID).Status; now != nil {
		s = *now
	}
	if w.Kind == fleet.VMStart {
		s.Power = fleet.Running
	}
	if o := w.Args.Snapshot; o != nil {
		tree := fleet.SnapshotTree{}
		if s.Snapshots != nil {
			tree = *s.Snapshots
		}
		switch w.Kind {
		case fleet.VMSnapshot:
			tree.Snapshots = append(slices.Clone(tree.Snapshots), fleet.Snapshot{ID: o.ID, Parent: tree.Current, Name: o.Name, At: time.Unix(0, 0)})
			tree.Current = o.ID
		case fleet.VMRevert:
			tree.Current = o.ID
		case fleet.VMSnapshotDelete:
			tree.Snapshots = slices.DeleteFunc(slices.Clone(tree.Snapshots), func(s fleet.Snapshot) bool { return s.ID == o.ID })
		}
		s.Snapshots = &tree
	}
	return wire.Finish{VM: &s}
}

// outcomeText returns the rows written for a request as text, without ids and times, so that two runs are comparable.
func (m *crashFixture) outcomeText() string {
	m.t.Helper()
	return queryValue[string](&hostFixture{t: m.t, pool: m.pool}, `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
		SELECT concat_ws(' ', 'vm', name, spec->>'power', status->>'power', observed_generation = generation, jsonb_array_length(spec->'disks'), jsonb_path_query_array(status, '$.snapshots.snapshots[*].name')) FROM vms
		UNION ALL SELECT concat_ws(' ', 'task', kind, subject_name, state, error) FROM tasks
		UNION ALL SELECT concat_ws(' ', 'job', kind, role, state, error) FROM jobs
		UNION ALL SELECT concat_ws(' ', 'audit', action, name, detail) FROM audit
		UNION ALL SELECT concat_ws(' ', 'order', count(*)) FROM vm_orders
		UNION ALL SELECT concat_ws(' ', 'disks', count(*)) FROM made_disks
		UNION ALL SELECT concat_ws(' ', 'copies', count(*)) FROM image_copies) all_of_it (line)`)
}

package control_test

import (
	"testing"
	"time"

	"quantix/internal/control/network"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// reportFrom sends a full report whose inventory has the given age.
func (r *hostFixture) reportFrom(age time.Duration, networks ...wire.NetworkReport) {
	r.t.Helper()
	seq := r.nextSeq()
	_, err := r.Report(r.t.Context(), r.agent, wire.Report{Seq: seq, Digest: string(rune(seq)), StateAgeMs: age.Milliseconds(), State: &wire.State{
		Host: fleet.HostStatus{Connected: true}, Networks: networks,
	}})
	if err != nil {
		r.t.Fatal(err)
	}
}

// A released network must not be listed as discovered because of a report whose inventory is older than the release. A
// network of that name that an administrator creates on the host later is discovered.
func TestReleasedNetworkIsNotDiscovered(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`UPDATE hosts SET status = '{}'`)
	lan, err := r.CreateNetwork(t.Context(), fleet.SystemActor, network.CreateNetwork{Name: "lan", Spec: natSpec("10.5.0.1/24"), HostIDs: []fleet.HostID{r.agent.HostID}})
	if err != nil {
		t.Fatal(err)
	}
	work := r.claimJobs()
	if err := r.finishJob(work[0], wire.Finish{Outcome: wire.Done, Generation: 1, Network: &fleet.NetworkStatus{Active: true}}); err != nil {
		t.Fatal(err)
	}
	present := wire.NetworkReport{ID: lan.ID, Name: "lan", Kind: fleet.NetworkLibvirt, Status: fleet.NetworkStatus{Active: true}}
	missing := wire.NetworkReport{ID: lan.ID, Name: "lan", Kind: fleet.NetworkLibvirt, Status: fleet.NetworkStatus{Error: "libvirt on this host has no such network."}, Absent: true}
	br0 := wire.NetworkReport{Name: "br0", Kind: fleet.NetworkBridge, Status: fleet.NetworkStatus{Active: true}}
	want := func(when, want string) {
		t.Helper()
		if got := r.assignmentList(); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	r.reportFrom(time.Second, missing)
	want("assigned and lacked", "net lan assign false")
	r.reportFrom(time.Second, present)
	if _, err := r.DeleteEverywhere(t.Context(), fleet.SystemActor, fleet.SubjectNetwork(lan.ID)); err != nil {
		t.Fatal(err)
	}
	work = r.claimJobs()
	r.reportFrom(time.Second, present, br0)
	want("being released", "net br0  true, net lan release true")
	if err := r.finishJob(work[0], wire.Finish{Outcome: wire.Done, Generation: 2}); err != nil {
		t.Fatal(err)
	}
	want("released", "net br0  true")
	r.reportFrom(time.Second, present, br0)
	want("of a look before the release", "net br0  true")
	r.reportFrom(time.Millisecond, missing, br0)
	want("of an agent that does not know yet that it is nobody's", "net br0  true")
	r.execSQL(`UPDATE jobs SET ended_at = ended_at - interval '1 minute'`)
	r.reportFrom(time.Second, missing, br0)
	want("the same later", "net br0  true")
	r.reportFrom(time.Second, present, br0)
	want("defined again on the host", "net br0  true, net lan  true")
	r.reportFrom(time.Second, br0)
	want("and removed there", "net br0  true")
}

// A failed release is retried after 5 minutes, then after 10 minutes, and so on up to six hours. Jobs for other pools
// and networks, and for other hosts, are not delayed.
func TestFailedReleaseOfNetworkOrPoolIsRetriedWithBackoff(t *testing.T) {
	r := newHostFixture(t)
	other := r.addHost("other")
	r.execSQL(`INSERT INTO networks (id, name, kind, spec) VALUES ('lan', 'lan', 'libvirt', '{}')`)
	r.execSQL(`INSERT INTO pools (id, name, spec) VALUES ('fast', 'fast', '{}')`)
	r.execSQL(`UPDATE host_sessions SET seen_at = now(), blind_since = NULL`)
	for prefix, id := range map[string]string{"net": "lan", "pool": "fast"} {
		r.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, observed_generation) VALUES ($1, $2, $3, 'release', 1), ($1, $2, $4, 'release', 1)`, prefix, id, r.agent.HostID, other.HostID)
		due := func() bool {
			t.Helper()
			r.execSQL(`UPDATE host_sessions SET seen_at = now(), blind_since = NULL`)
			// Only failures of the last day lengthen the delay.
			r.execSQL(`UPDATE jobs SET ended_at = GREATEST(ended_at, now() - interval '23 hours') WHERE state = 'failed'`)
			if err := r.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
				t.Fatal(err)
			}
			return queryValue[bool](r, `SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'queued' AND subject = '`+prefix+`:`+id+`' AND host_id = '`+string(r.agent.HostID)+`')`)
		}
		ends := func(state string) {
			t.Helper()
			r.execSQL(`UPDATE jobs SET state = $1, ended_at = now() WHERE state = 'queued' AND subject = $2`, state, prefix+":"+id)
		}
		pass := func(minutes int) {
			r.execSQL(`UPDATE jobs SET ended_at = ended_at - $1 * interval '1 minute' WHERE ended_at IS NOT NULL`, minutes)
		}
		if !due() {
			t.Fatalf("%s: a lost release is not requested", prefix)
		}
		for i, minutes := range []int{5, 10, 20, 40, 80, 160, 320, 360, 360} {
			ends("failed")
			pass(minutes - 1)
			if due() {
				t.Fatalf("%s: %d minutes after failure %d it is tried again", prefix, minutes-1, i+1)
			}
			pass(2)
			if !due() {
				t.Fatalf("%s: %d minutes after failure %d it is not tried again", prefix, minutes+1, i+1)
			}
			r.execSQL(`UPDATE jobs SET state = 'done' WHERE state = 'queued' AND host_id = $1`, other.HostID)
		}
		ends("done")
	}
}

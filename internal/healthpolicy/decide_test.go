package healthpolicy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quantix/internal/fleet"
	"quantix/internal/healthpolicy"
)

const failed = "gpu-failed:NoExecute"

func match(id int64, a healthpolicy.Actions) healthpolicy.Match {
	return healthpolicy.Match{ID: id, PolicyName: "gpu-failed", Check: "gpu", Object: "gpu/0", Code: "xid-79", State: healthpolicy.New, Actions: a}
}

// rig is a host whose decisions are executed as the pass does.
type rig struct {
	spec fleet.HostSpec
	acts []healthpolicy.Act
	room healthpolicy.Room
}

func newRig() *rig {
	return &rig{spec: fleet.DefaultHostSpec(), room: healthpolicy.Room{Max: 1, Hosts: map[fleet.HostID]bool{}}}
}

func (r *rig) pass(matches ...healthpolicy.Match) healthpolicy.Decision {
	d := healthpolicy.Decide("h1", r.spec, matches, r.acts, r.room)
	r.spec, r.acts = d.Spec, d.Set
	return d
}

func (r *rig) taints() string {
	var out []string
	for _, t := range r.spec.Taints {
		out = append(out, t.Text())
	}
	return strings.Join(out, " ")
}

func TestTaintIsAddedAndUndone(t *testing.T) {
	t.Parallel()
	r := newRig()
	m := match(1, healthpolicy.Actions{Taint: failed})
	d := r.pass(m)
	if r.taints() != failed || d.States[1].State != healthpolicy.Active || len(d.Added) != 1 || d.Added[0].Cause != "XID 79 on gpu/0" {
		t.Fatalf("%s, %+v", r.taints(), d)
	}
	m.State = healthpolicy.Active
	if d = r.pass(m); len(d.Added)+len(d.Undone)+len(d.States) > 0 {
		t.Errorf("an equal pass changes %+v", d)
	}
	if d = r.pass(); r.taints() != "" || len(d.Undone) != 1 || len(r.room.Hosts) != 0 {
		t.Errorf("after the end: %s, %+v, %v", r.taints(), d, r.room)
	}
}

func TestWhatAUserSetStays(t *testing.T) {
	t.Parallel()
	r := newRig()
	r.spec.Taints, r.spec.Schedulable = []fleet.Taint{fleet.ParseTaint(failed)}, false
	d := r.pass(match(1, healthpolicy.Actions{Taint: failed, Cordon: true}))
	if len(d.Added) > 0 || !strings.Contains(d.States[1].Reason, "The host had this before") {
		t.Errorf("%+v", d)
	}
	if r.pass(); r.taints() != failed || r.spec.Schedulable {
		t.Errorf("the user's taint and cordon are gone: %s", r.taints())
	}
}

func TestWhatAUserRemovedIsNotAddedAgain(t *testing.T) {
	t.Parallel()
	r := newRig()
	m := match(1, healthpolicy.Actions{Taint: failed, Cordon: true})
	r.pass(m)
	r.spec = fleet.DefaultHostSpec() // the user removes both
	d := r.pass(m)
	if r.taints() != "" || !r.spec.Schedulable || !strings.Contains(d.States[1].Reason, "A user has undone this") {
		t.Errorf("%s, %+v", r.taints(), d)
	}
	r.spec.Taints = []fleet.Taint{fleet.ParseTaint(failed)} // and adds the taint again
	r.pass(m)
	if r.pass(); r.taints() != failed {
		t.Error("the user's taint was removed at the end")
	}
	if r.spec.Taints = nil; len(r.acts) > 0 {
		t.Error("acts are left")
	}
	if r.pass(m); r.taints() != failed {
		t.Error("the next condition does not taint the host")
	}
}

func TestEvacuationsWaitForRoom(t *testing.T) {
	t.Parallel()
	r := newRig()
	r.room.Max, r.room.Hosts = 1, map[fleet.HostID]bool{"h2": true, "h3": true}
	d := r.pass(match(1, healthpolicy.Actions{Drain: true}))
	if want := "2 hosts are being drained for health policies; at most 1 at once."; d.States[1] != (healthpolicy.Update{State: healthpolicy.Waiting, Reason: want}) || r.taints() != "" || r.spec.Schedulable {
		t.Errorf("%+v, %s", d, r.taints())
	}
	clear(r.room.Hosts)
	if d = r.pass(match(1, healthpolicy.Actions{Drain: true})); r.taints() != healthpolicy.DrainTaint || !r.room.Hosts["h1"] || d.States[1].State != healthpolicy.Active {
		t.Errorf("%+v, %s", d, r.taints())
	}
	r.room.Max = 0
	if r.pass(match(1, healthpolicy.Actions{Drain: true})); r.taints() != healthpolicy.DrainTaint {
		t.Error("a lower maximum undoes what was done")
	}
}

func TestDryRunReleasedAndMomentaryMatchesChangeNothing(t *testing.T) {
	t.Parallel()
	all := healthpolicy.Actions{Taint: failed, Drain: true, Alarm: true}
	for name, change := range map[string]func(*healthpolicy.Match){
		"dry run":   func(m *healthpolicy.Match) { m.DryRun = true },
		"released":  func(m *healthpolicy.Match) { m.State = healthpolicy.Released },
		"momentary": func(m *healthpolicy.Match) { m.Momentary = true },
		"ended":     func(m *healthpolicy.Match) { m.EndedAt = new(time.Now()) },
	} {
		r, m := newRig(), match(1, all)
		change(&m)
		if d := r.pass(m); len(d.Set) > 0 || r.taints() != "" || !r.spec.Schedulable || name == "dry run" && d.States[1].Reason != "Dry run: would drain, taint "+failed+" and raise an alarm." {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestFullHostWaits(t *testing.T) {
	t.Parallel()
	r := newRig()
	for i := range fleet.MaxTaints {
		r.spec.Taints = append(r.spec.Taints, fleet.Taint{Key: "t" + string(rune('a'+i)), Effect: fleet.NoSchedule})
	}
	if d := r.pass(match(1, healthpolicy.Actions{Taint: failed})); d.States[1].State != healthpolicy.Waiting || len(r.spec.Taints) != fleet.MaxTaints {
		t.Errorf("%+v", d)
	}
}

// Whatever policies and users do, the end of all matches leaves exactly what users set.
func TestEndOfMatchesLeavesWhatUsersSet(t *testing.T) {
	t.Parallel()
	taints := []string{failed, healthpolicy.DrainTaint, "gpu:NoSchedule"}
	rapid.Check(t, func(t *rapid.T) {
		r := newRig()
		users := map[string]bool{} // acts that users set
		has := func(act string) bool {
			if act == healthpolicy.Cordon {
				return !r.spec.Schedulable
			}
			return slices.Contains(r.spec.Taints, fleet.ParseTaint(act))
		}
		var matches []healthpolicy.Match
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				matches = append(matches, match(int64(len(matches)+1), healthpolicy.Actions{Taint: rapid.SampledFrom(append(taints, "")).Draw(t, "taint"), Cordon: rapid.Bool().Draw(t, "cordon"), Drain: rapid.Bool().Draw(t, "drain")}))
			case 1:
				if len(matches) > 0 {
					matches = matches[1:]
				}
			case 2:
				act := rapid.SampledFrom(append(taints, healthpolicy.Cordon)).Draw(t, "act")
				if has(act) {
					users[act] = false
					if act == healthpolicy.Cordon {
						r.spec.Schedulable = true
					} else {
						r.spec.Taints = slices.DeleteFunc(slices.Clone(r.spec.Taints), func(x fleet.Taint) bool { return x.Text() == act })
					}
				} else {
					users[act] = true
					if act == healthpolicy.Cordon {
						r.spec.Schedulable = false
					} else {
						r.spec.Taints = append(slices.Clone(r.spec.Taints), fleet.ParseTaint(act))
					}
				}
				r.pass(matches...) // users act between passes, and each pass sees it
			}
			r.pass(matches...)
		}
		r.pass()
		for _, act := range append(taints, healthpolicy.Cordon) {
			if has(act) != users[act] {
				t.Fatalf("%s: the host has it: %t, users set it: %t", act, has(act), users[act])
			}
		}
		if len(r.acts) > 0 || len(r.room.Hosts) > 0 {
			t.Fatalf("left: %v, %v", r.acts, r.room)
		}
	})
}

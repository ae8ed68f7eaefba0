package hypervisor_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

func newSpec(cpus int, volumes ...string) fleet.VMSpec {
	s := fleet.VMSpec{CPUs: cpus, MemoryMiB: 128, Firmware: fleet.BIOS}
	for _, v := range volumes {
		s.Disks = append(s.Disks, fleet.Disk{PoolID: "p", Volume: v, SizeBytes: 1})
	}
	return s
}

func newVM(s fleet.VMSpec) fleet.VM { return fleet.VM{Meta: fleet.Meta{Name: "web"}, Spec: s} }

func volumeNames(all []fleet.Disk) string {
	var out []string
	for _, d := range all {
		out = append(out, d.Volume)
	}
	return strings.Join(out, " ")
}

func TestPlanComparesAppliedDefinedAndWantedSpecs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		was, is, want fleet.VMSpec
		putBack       bool
		cpus          bool
		disks, drop   string
	}{
		"nothing differs":              {newSpec(1, "a"), newSpec(1, "a"), newSpec(1, "a"), false, false, "a", ""},
		"user's edit":                  {newSpec(1), newSpec(1), newSpec(2), false, true, "", ""},
		"host's edit is kept":          {newSpec(1), newSpec(4), newSpec(1), false, false, "", ""},
		"both edited: the user's wins": {newSpec(1), newSpec(4), newSpec(2), false, true, "", ""},
		"drift accepted":               {newSpec(1), newSpec(4), newSpec(4), false, false, "", ""},
		"drift reapplied":              {newSpec(1, "a"), newSpec(4), newSpec(1, "a"), true, true, "a", ""},
		"detached on the host, and another added": {
			newSpec(1, "a", "b"), newSpec(1, "a"), newSpec(1, "a", "b", "c"), false, false, "a c", "",
		},
		"detached by the user": {newSpec(1, "a", "b"), newSpec(1, "a", "b"), newSpec(1, "b"), false, false, "b", "a"},
	} {
		e := hypervisor.PlanEdit(hypervisor.AppliedRecord{Name: "web", Spec: c.was}, hypervisor.DefinedSpec{Spec: c.is}, newVM(c.want), hypervisor.ApplyWork{Reapply: c.putBack}.Overwrites)
		if e.SetsField("cpus") != c.cpus || volumeNames(e.Disks) != c.disks || volumeNames(e.RemoveDisks) != c.drop || e.SetName || e.SetsField("memoryMiB") || e.RemoveUnwantedDisks != c.putBack || e.RemoveUnwantedNICs != c.putBack {
			t.Errorf("%s: the edit is %+v", name, e)
		}
	}
}

// The definition of an older agent has no applied spec. A job then overwrites no edit, and still creates a disk that
// does not exist.
func TestJobOverwritesNoEditWithoutAppliedSpec(t *testing.T) {
	t.Parallel()
	in := hypervisor.ApplyWork{VM: newVM(newSpec(2, "a", "b", "new"))}
	is := hypervisor.DefinedSpec{Domain: "web", Spec: newSpec(4, "a")}
	was := hypervisor.AssumeAppliedRecord(in, "web", "", func(d fleet.Disk) bool { return d.Volume == "new" })
	e := hypervisor.PlanEdit(was, is, in.VM, hypervisor.OverwriteNothing)
	if e.SetsField("cpus") || volumeNames(e.Disks) != "a new" {
		t.Errorf("the edit is %+v", e)
	}
	if d := hypervisor.NewAppliedRecord(in, "web", "", nil).Drift(is); len(d) != 2 || d[0].Field != "cpus" || d[1].Field != "disks" {
		t.Errorf("the drift is %+v", d)
	}
}

func TestDriftOffersOnlyValuesThatSpecCanExpress(t *testing.T) {
	t.Parallel()
	was := hypervisor.AppliedRecord{Name: "db", Domain: "db_acme", Spec: newSpec(1, "a", "b")}
	was.Spec.ISO = &fleet.Volref{PoolID: "p", Volume: "boot.iso"}
	is := hypervisor.DefinedSpec{Domain: "Not a name", Spec: newSpec(1, "b"), Inexpressible: map[string]string{"nics": "mac on direct eth0"}}
	got := was.Drift(is)
	want := []fleet.Drift{
		{Field: "name", Applied: "db_acme", Actual: "Not a name"},
		{Field: "disks", Applied: "a, b", Actual: "b", Take: json.RawMessage(`[{"poolId":"p","volume":"b","sizeBytes":1}]`)},
		{Field: "nics", Applied: "none", Actual: "mac on direct eth0"},
		{Field: "iso", Applied: "boot.iso", Actual: "none", Take: json.RawMessage(`null`)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the drift is\n%+v, want\n%+v", got, want)
	}
	for _, name := range []string{"db", "db_acme"} {
		if d := was.Drift(hypervisor.DefinedSpec{Domain: name, Spec: was.Spec}); len(d) != 0 {
			t.Errorf("the name %s is drift: %+v", name, d)
		}
	}
}

func TestDomainNameCandidatesAddProjectAndID(t *testing.T) {
	t.Parallel()
	id := fleet.VMID("019cb0de-1111-7222-8333-44445555abcd")
	if got := hypervisor.DomainNames("db", "acme", id); !slices.Equal(got, []string{"db", "db_acme", "db_acme_44445555"}) {
		t.Errorf("names are %q", got)
	}
	if got := hypervisor.DomainNames("db", "", id); !slices.Equal(got, []string{"db", "db_44445555"}) {
		t.Errorf("names are %q", got)
	}
	long := hypervisor.DomainNames(strings.Repeat("n", 63), strings.Repeat("p", 300), id)
	if len(long[2]) != 200 || !strings.HasSuffix(long[2], "_44445555") {
		t.Errorf("a long name is %q", long[2])
	}
}

package quota_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/quota"
)

// Resources has one row for each field of Quota and Usage, under the field's JSON name.
func TestResourcesAreTheFieldsOfQuotaAndUsage(t *testing.T) {
	t.Parallel()
	for _, of := range []reflect.Type{reflect.TypeFor[quota.Quota](), reflect.TypeFor[quota.Usage]()} {
		var keys []string
		for field := range of.Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != quota.PoolsKey {
				keys = append(keys, name)
			}
		}
		var rows []string
		for _, r := range quota.Resources {
			rows = append(rows, r.Key)
		}
		if !reflect.DeepEqual(keys, rows) {
			t.Errorf("%s has the fields %q, and the rows are %q", of, keys, rows)
		}
	}
	for i, r := range quota.Resources {
		var q quota.Quota
		n := int64(i + 1)
		r.Limit(&q).Hard = &n
		text, err := json.Marshal(q)
		if want := `{"` + r.Key + `":{"hard":`; err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("the limit of %s is %s %v", r.Key, text, err)
		}
		var u quota.Usage
		if err := json.Unmarshal([]byte(`{"`+r.Key+`": 7}`), &u); err != nil || r.Used(u) != 7 {
			t.Errorf("the use of %s is %d %v, want 7", r.Key, r.Used(u), err)
		}
	}
}

func TestLinesCompareUseWithLimits(t *testing.T) {
	t.Parallel()
	hard, soft := int64(8), int64(6)
	q := quota.Quota{CPUs: quota.Limit{Hard: &hard, Soft: &soft}, Pools: map[fleet.PoolID]quota.Limit{"ssd": {Hard: &hard}}}
	for name, c := range map[string]struct {
		used, more int64
		state      quota.State
		refused    bool
	}{
		"within":                   {2, 2, quota.Within, false},
		"above the soft limit":     {5, 2, quota.OverSoft, false},
		"up to the hard limit":     {6, 2, quota.OverSoft, false},
		"above the hard limit":     {7, 2, quota.OverHard, true},
		"above already, unchanged": {9, 0, quota.OverHard, false},
		"above already, less":      {9, -1, quota.OverSoft, false},
	} {
		for _, l := range quota.Lines(q, quota.Usage{CPUs: c.used, Pools: map[fleet.PoolID]int64{"ssd": c.used}}, quota.Usage{CPUs: c.more, Pools: map[fleet.PoolID]int64{"ssd": c.more}}) {
			if l.Key == "cpus" && (l.State() != c.state || l.IsRefused() != c.refused) {
				t.Errorf("%s: %q, refused %v", name, l.State(), l.IsRefused())
			}
			if l.Pool == "ssd" && l.IsRefused() != c.refused {
				t.Errorf("%s: pool refused %v", name, l.IsRefused())
			}
		}
	}
}

func TestUsageOfVM(t *testing.T) {
	t.Parallel()
	u := quota.OfVM(fleet.VMSpec{
		CPUs: 2, MemoryMiB: 512, Power: fleet.Running, NICs: make([]fleet.NIC, 2),
		Disks:       []fleet.Disk{{PoolID: "a", SizeBytes: 5}, {PoolID: "a", SizeBytes: 6}, {PoolID: "b", SizeBytes: 7}, {PoolID: "b"}},
		HostDevices: []fleet.VMHostDevice{{Device: "mdev/nvidia-63"}, {Device: "usb/046d:c52b"}},
	})
	want := quota.Usage{VMs: 1, RunningVMs: 1, CPUs: 2, MemoryMiB: 512, DiskBytes: 18, NICs: 2, HostDevices: 2, GPUs: 1, Pools: map[fleet.PoolID]int64{"a": 11, "b": 7}}
	if !reflect.DeepEqual(u, want) {
		t.Errorf("got %+v, want %+v", u, want)
	}
}

func TestChangeTextListsChangedLimits(t *testing.T) {
	t.Parallel()
	n := func(v int64) *int64 { return &v }
	was := quota.Quota{CPUs: quota.Limit{Hard: n(8), Soft: n(6)}, NICs: quota.Limit{Hard: n(3)}}
	to := quota.Quota{CPUs: quota.Limit{Hard: n(16), Soft: n(12)}, NICs: quota.Limit{Hard: n(3)}, MemoryMiB: quota.Limit{Soft: n(2048)}, Pools: map[fleet.PoolID]quota.Limit{"p1": {Hard: n(1 << 30)}}}
	if got, want := quota.ChangeText(was, to), "vCPUs 8 → 16 (soft 6 → 12), Memory soft none → 2 GiB, pool p1 none → 1 GiB"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := quota.ChangeText(was, was); got != "no change" {
		t.Errorf("got %q", got)
	}
}

func TestDifferenceOfUsages(t *testing.T) {
	t.Parallel()
	before := quota.Usage{CPUs: 2, MemoryMiB: 512, Pools: map[fleet.PoolID]int64{"a": 5, "b": 7}}
	after := quota.Usage{CPUs: 4, MemoryMiB: 256, Pools: map[fleet.PoolID]int64{"a": 9}}
	want := quota.Usage{CPUs: 2, MemoryMiB: -256, Pools: map[fleet.PoolID]int64{"a": 4, "b": -7}}
	if got := quota.Difference(after, before); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Each resource with a trend exists, and reads its own value.
func TestTrendsAreResources(t *testing.T) {
	t.Parallel()
	day := quota.Day{VMs: 1, RunningVMs: 2, CPUs: 3, MemoryMiB: 4, DiskBytes: 5}
	seen := map[int64]bool{}
	for _, r := range quota.Resources {
		if use, ok := quota.Trends[r.Key]; ok {
			seen[use(day)] = true
		}
	}
	if len(seen) != len(quota.Trends) || len(seen) != 5 {
		t.Errorf("the trends read %v", seen)
	}
}

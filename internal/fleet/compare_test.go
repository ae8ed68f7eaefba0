package fleet_test

import (
	"reflect"
	"testing"

	"quantix/internal/fleet"
)

func aVM(change ...func(*fleet.VM)) fleet.VM {
	vm := fleet.VM{Meta: fleet.Meta{Name: "web", Labels: map[string]string{"env": "prod"}}, Spec: fleet.VMSpec{CPUs: 2, MemoryMiB: 2048, Firmware: fleet.BIOS}}
	for _, f := range change {
		f(&vm)
	}
	return vm
}

func TestCompareShowsEveryFieldAndDifferencesFirst(t *testing.T) {
	t.Parallel()
	rows := fleet.Compare(aVM(), aVM(func(v *fleet.VM) { v.Spec.Boot.Menu, v.Labels, v.Spec.CPUs = true, nil, 4 }))
	if len(rows) != 3+len(fleet.VMFields) {
		t.Fatalf("%d rows for %d fields", len(rows), 3+len(fleet.VMFields))
	}
	var differ []string
	for i, r := range rows {
		if !r.Same {
			differ = append(differ, r.Noun+": "+r.Left+" | "+r.Right)
		}
		if i > 0 && rows[i-1].Same && !r.Same || r.Noun == "" || r.Left == "" || r.Right == "" {
			t.Errorf("row %d is %+v", i, r)
		}
	}
	if want := []string{"Labels: env=prod | none", "vCPUs: 2 vCPUs | 4 vCPUs", "Boot menu: off | on"}; !reflect.DeepEqual(differ, want) {
		t.Errorf("what differs is %q, want %q", differ, want)
	}
}

func TestMergePutsTwoEditsTogether(t *testing.T) {
	t.Parallel()
	was := aVM()
	mine := aVM(func(v *fleet.VM) { v.Spec.CPUs, v.Spec.MemoryMiB, v.Description = 4, 4096, "same" })
	theirs := aVM(func(v *fleet.VM) { v.Spec.CPUs, v.Labels, v.Description = 8, map[string]string{"env": "test"}, "same" })
	for name, c := range map[string]struct {
		chosen map[string]fleet.Side
		cpus   int
		env    string
		memory int
		open   bool
	}{
		"nobody has chosen":  {nil, 8, "test", 4096, true},
		"mine":               {map[string]fleet.Side{"cpus": fleet.Mine}, 4, "test", 4096, false},
		"theirs":             {map[string]fleet.Side{"cpus": fleet.Theirs}, 8, "test", 4096, false},
		"back to what I had": {map[string]fleet.Side{"cpus": fleet.Mine, "labels": fleet.Mine, "memoryMiB": fleet.Theirs}, 4, "prod", 2048, false},
		"no side":            {map[string]fleet.Side{"cpus": "everybody's"}, 8, "test", 4096, true},
	} {
		out, fields := fleet.Merge(was, mine, theirs, c.chosen)
		open := false
		for _, f := range fields {
			open = open || f.Take == ""
		}
		if out.Spec.CPUs != c.cpus || out.Labels["env"] != c.env || out.Spec.MemoryMiB != c.memory || open != c.open || len(fields) != 3 || out.Description != "same" {
			t.Errorf("%s: %+v, fields %+v", name, out, fields)
		}
	}
	if _, fields := fleet.Merge(was, was, theirs, nil); len(fields) != 3 || fields[0].Both || fields[0].Take != fleet.Theirs {
		t.Errorf("of one's own nothing: %+v", fields)
	}
}

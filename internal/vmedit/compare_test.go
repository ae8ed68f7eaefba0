package vmedit_test

import (
	"reflect"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/template"
	"quantix/internal/testkit/vmspec"
	"quantix/internal/vmcopy"
	"quantix/internal/vmedit"
)

func testVM(change ...func(*fleet.VM)) fleet.VM {
	vm := fleet.VM{Meta: fleet.Meta{Name: "web", Labels: map[string]string{"env": "prod"}}, Spec: fleet.VMSpec{CPUs: 2, MemoryMiB: 2048, Firmware: fleet.BIOS}}
	for _, f := range change {
		f(&vm)
	}
	return vm
}

func TestCompareVMsListsDifferencesBeforeEqualFields(t *testing.T) {
	t.Parallel()
	rows := vmedit.CompareVMs(testVM(), testVM(func(v *fleet.VM) { v.Spec.Boot.Menu, v.Labels, v.Spec.CPUs = true, nil, 4 }))
	if len(rows) != 3+len(fleet.VMFields) {
		t.Fatalf("%d rows for %d fields", len(rows), 3+len(fleet.VMFields))
	}
	var differ []string
	for i, r := range rows {
		if !r.Same {
			differ = append(differ, r.Type+": "+r.Left+" | "+r.Right)
		}
		if i > 0 && rows[i-1].Same && !r.Same || r.Type == "" || r.Left == "" || r.Right == "" {
			t.Errorf("row %d is %+v", i, r)
		}
	}
	if want := []string{"Labels: env=prod | none", "vCPUs: 2 vCPUs | 4 vCPUs", "Boot menu: off | on"}; !reflect.DeepEqual(differ, want) {
		t.Errorf("differences are %q, want %q", differ, want)
	}
}

func TestCompareTemplateIgnoresIdentityOfVM(t *testing.T) {
	t.Parallel()
	on := true
	vm := fleet.VMView{VM: testVM(func(v *fleet.VM) {
		v.Spec = vmspec.WithAllFields()
		v.Spec.CPUs, v.Spec.MemoryMiB, v.Spec.Firmware, v.ProjectID = 2, 2048, fleet.UEFI, "shop"
		v.Spec.ISO = &fleet.Volref{PoolID: "p", Volume: "cd.iso"}
		v.Spec.Disks = []fleet.Disk{{PoolID: "p", Volume: "web-1.qcow2", SizeBytes: 3 << 30, ImageID: "i", VersionID: "v", Overlay: true, Cache: "none", Serial: "A1"}}
		v.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:01", Model: "e1000e", AntiSpoofing: &on, SecurityGroups: []fleet.SecurityGroupID{"g"}}}
	})}
	shop := template.View{Template: template.Template{ProjectID: "shop"}}
	version := func() template.Version {
		s := vmcopy.WithoutIdentity(vm.Spec)
		s.Disks[0].ImageID, s.Disks[0].VersionID, s.Disks[0].PoolID, s.Disks[0].SizeBytes = "i", "v", "elsewhere", 0
		s.NICs[0].AntiSpoofing = nil // the default depends on the user who creates the VM
		return template.Version{Spec: s, Disks: []template.Disk{{SizeBytes: 3 << 30}}}
	}
	compared := map[string]bool{}
	for _, r := range vmedit.CompareTemplate(vm, shop, version()) {
		f, ok := fleet.FieldByName(r.Field)
		if compared[r.Field] = true; !ok || !r.Same || r.Left != r.Right || r.Left == f.Words(fleet.VMSpec{}) {
			t.Errorf("different or empty: %+v", r)
		}
	}
	for _, f := range fleet.VMFields { // fields that CompareTemplate leaves out must be empty in a template
		if !compared[f.Name] && f.Words(vmcopy.WithoutIdentity(vm.Spec)) != f.Words(fleet.VMSpec{}) {
			t.Errorf("%s is not compared", f.Name)
		}
	}

	v := version()
	v.Spec.CPUs, v.Spec.Disks[0].SizeBytes, v.Spec.Disks[0].Cache, v.Spec.NICs[0].Model, v.Spec.Boot.Menu = 4, 5<<30, "", "", false
	var differ []string
	for _, r := range vmedit.CompareTemplate(vm, shop, v) {
		if !r.Same {
			differ = append(differ, r.Type+": "+r.Left+" | "+r.Right)
		}
	}
	if want := []string{
		"vCPUs: 2 vCPUs | 4 vCPUs", "Disks: of 3 GiB (cache None) | of 5 GiB",
		"NICs: on network default, in 1 security group (model Intel e1000e) | on network default, in 1 security group", "Boot menu: on | off",
	}; !reflect.DeepEqual(differ, want) {
		t.Errorf("differences are %q, want %q", differ, want)
	}
	// A VM created in another project gets none of the template's security groups.
	shop.ProjectID, vm.Spec.NICs[0].SecurityGroups = "other", nil
	for _, r := range vmedit.CompareTemplate(vm, shop, version()) {
		if !r.Same {
			t.Errorf("with a template of another project: %+v differs", r)
		}
	}
	if version().Spec.NICs[0].SecurityGroups != nil || vm.Spec.NICs[0].AntiSpoofing == nil || vm.Spec.Disks[0].PoolID != "p" {
		t.Error("CompareTemplate changed its arguments")
	}
}

func TestMergeCombinesTwoEditsOfVM(t *testing.T) {
	t.Parallel()
	was := testVM()
	mine := testVM(func(v *fleet.VM) { v.Spec.CPUs, v.Spec.MemoryMiB, v.Description = 4, 4096, "same" })
	theirs := testVM(func(v *fleet.VM) { v.Spec.CPUs, v.Labels, v.Description = 8, map[string]string{"env": "test"}, "same" })
	for name, c := range map[string]struct {
		chosen map[string]vmedit.MergeSide
		cpus   int
		env    string
		memory int
		open   bool
	}{
		"no choice":                {nil, 8, "test", 4096, true},
		"mine":                     {map[string]vmedit.MergeSide{"cpus": vmedit.Mine}, 4, "test", 4096, false},
		"theirs":                   {map[string]vmedit.MergeSide{"cpus": vmedit.Theirs}, 8, "test", 4096, false},
		"opposite of the defaults": {map[string]vmedit.MergeSide{"cpus": vmedit.Mine, "labels": vmedit.Mine, "memoryMiB": vmedit.Theirs}, 4, "prod", 2048, false},
		"invalid side":             {map[string]vmedit.MergeSide{"cpus": "everybody's"}, 8, "test", 4096, true},
	} {
		out, fields := vmedit.MergeEdits(was, mine, theirs, c.chosen)
		open := false
		for _, f := range fields {
			open = open || f.Winner == ""
		}
		if out.Spec.CPUs != c.cpus || out.Labels["env"] != c.env || out.Spec.MemoryMiB != c.memory || open != c.open || len(fields) != 3 || out.Description != "same" {
			t.Errorf("%s: %+v, fields %+v", name, out, fields)
		}
	}
	if _, fields := vmedit.MergeEdits(was, was, theirs, nil); len(fields) != 3 || fields[0].Both || fields[0].Winner != vmedit.Theirs {
		t.Errorf("without own changes: %+v", fields)
	}
}

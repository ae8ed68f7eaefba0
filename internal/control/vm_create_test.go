package control_test

import (
	"regexp"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

func TestCreateVMWritesSpecAndQueuesJob(t *testing.T) {
	s := newProjectFixture(t)
	mine := fleet.ProjectMACPrefix(s.red) + "0a:0b"
	v, err := s.CreateVM(t.Context(), s.member, control.CreateVM{
		ProjectID: s.red, Name: "web", Start: true, Labels: map[string]string{"env": "prod"},
		Spec: fleet.VMSpec{
			CPUs: 2, MemoryMiB: 512, NICs: []fleet.NIC{{Network: "default"}, {Network: "default", MAC: strings.ToUpper(mine)}},
			Disks: []fleet.Disk{{PoolID: s.nfs, Image: &fleet.Volref{PoolID: s.nfs, Volume: "debian.qcow2"}}, {PoolID: s.local, SizeBytes: 1 << 30}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.getVM(v.ID).HostID != s.h1 || v.HostID != "" || v.Phase != fleet.PhaseCreating || v.Generation != 1 || v.Spec.Power != fleet.Running || v.Spec.Firmware != fleet.BIOS {
		t.Errorf("got %+v", v)
	}
	want := "web-" + string(v.ID[len(v.ID)-12:]) + "-1.qcow2"
	if v.Spec.Disks[0].Volume != want || v.Spec.Disks[1].Volume == want {
		t.Errorf("volumes %+v, want the first to be %s", v.Spec.Disks, want)
	}
	if !regexp.MustCompile(`^52:54:00(:[0-9a-f]{2}){3}$`).MatchString(v.Spec.NICs[0].MAC) || v.Spec.NICs[1].MAC != mine {
		t.Errorf("NICs %+v", v.Spec.NICs)
	}
	if got := s.jobList(fleet.SubjectVM(v.ID)); got != "vm.apply queued, vm.start queued" {
		t.Errorf("jobs: %s", got)
	}
	history, err := s.VMHistory(t.Context(), s.member, v.ID)
	if err != nil || len(history.Audit) != 1 || history.Audit[0].Action != "vm.create" || history.Audit[0].Actor != "mia" || len(history.Jobs) != 2 {
		t.Errorf("history %+v %v", history, err)
	}
}

func TestInvalidCreateVMRefused(t *testing.T) {
	s := newProjectFixture(t)
	taken := s.createVM("taken", fleet.Stopped)
	s.execSQL(`UPDATE vms SET spec = spec || `+defaultNICSQL("52:54:00:00:00:99")+` WHERE id = $1`, taken.ID)
	s.execSQL(`UPDATE assignments SET status = '{"state":"failed","error":"mount.nfs: timed out"}' WHERE pool_id = $1 AND host_id = $2`, s.nfs, s.h2)
	ok := func() control.CreateVM {
		return control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: "web", Spec: smallSpec}
	}
	for name, c := range map[string]struct {
		actor  fleet.Actor
		change func(*control.CreateVM)
		code   fleet.ErrorCode
		says   string
	}{
		"anonymous":          {anonymous, nil, fleet.Unauthorized, "Sign in"},
		"viewer":             {s.viewer, nil, fleet.Forbidden, "do not have permission"},
		"foreign project":    {s.blueMember, nil, fleet.NotFound, "no such"},
		"missing project":    {chief, func(in *control.CreateVM) { in.ProjectID = "nowhere" }, fleet.NotFound, "no such project"},
		"no project":         {chief, func(in *control.CreateVM) { in.ProjectID = "" }, fleet.Invalid, "Choose the project"},
		"bad name":           {chief, func(in *control.CreateVM) { in.Name = "Web Server" }, fleet.Invalid, "lower-case"},
		"taken name":         {chief, func(in *control.CreateVM) { in.Name = "taken" }, fleet.Conflict, `A VM named "taken" exists in red`},
		"bad label":          {chief, func(in *control.CreateVM) { in.Labels = map[string]string{"Env": "x"} }, fleet.Invalid, "Label key"},
		"no memory":          {chief, func(in *control.CreateVM) { in.Spec.MemoryMiB = 64 }, fleet.Invalid, "at least 128 MiB"},
		"more than the host": {chief, func(in *control.CreateVM) { in.Spec.MemoryMiB = 20000 }, fleet.Invalid, "16,384 MiB of memory in all"},
		"paused":             {chief, func(in *control.CreateVM) { in.Spec.Power = fleet.Paused }, fleet.Invalid, "running or stopped"},
		"own volume name": {chief, func(in *control.CreateVM) {
			in.Spec.Disks = []fleet.Disk{{PoolID: s.local, SizeBytes: 1, Volume: "mine"}}
		}, fleet.Invalid, "Leave the volume's name out"},
		"no such host": {chief, func(in *control.CreateVM) { in.HostID = "nowhere" }, fleet.Invalid, "no such host"},
		"no such pool": {chief, func(in *control.CreateVM) { in.Spec.Disks = []fleet.Disk{{PoolID: "nowhere", SizeBytes: 1}} }, fleet.Invalid, "no such pool"},
		"pool elsewhere": {chief, func(in *control.CreateVM) {
			in.HostID, in.Spec.Disks = s.h2, []fleet.Disk{{PoolID: s.local, SizeBytes: 1}}
		}, fleet.Invalid, "Pool local is not assigned to h2"},
		"pool failed": {chief, func(in *control.CreateVM) {
			in.HostID, in.Spec.Disks = s.h2, []fleet.Disk{{PoolID: s.nfs, SizeBytes: 1}}
		}, fleet.Invalid, "mount.nfs: timed out"},
		"no such image": {chief, func(in *control.CreateVM) {
			in.Spec.Disks = []fleet.Disk{{PoolID: s.nfs, Image: &fleet.Volref{PoolID: s.nfs, Volume: "arch.qcow2"}}}
		}, fleet.Invalid, "no volume"},
		"no such network": {chief, func(in *control.CreateVM) { in.Spec.NICs = []fleet.NIC{{Network: "lab"}} }, fleet.Invalid, `no active network "lab"`},
		"MAC of another":  {chief, func(in *control.CreateVM) { in.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:99"}} }, fleet.Invalid, "Another VM has this address"},
		"MAC twice": {chief, func(in *control.CreateVM) {
			in.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:01"}, {Network: "default", MAC: "52:54:00:00:00:01"}}
		}, fleet.Invalid, "Another NIC"},
		"nowhere fits": {chief, func(in *control.CreateVM) { in.HostID, in.Spec.MemoryMiB = "", 16000 }, fleet.Invalid, "2 fields"},
	} {
		in := ok()
		if c.change != nil {
			c.change(&in)
		}
		s.wantRefused(name, c.code, c.says, func() error { _, err := s.CreateVM(t.Context(), c.actor, in); return err })
	}
}

// Members cannot see hosts, so error texts for members name none.
func TestRefusalsHideHostsFromMembers(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("big", fleet.Stopped)
	s.execSQL(`UPDATE assignments SET status = '{"state":"failed","error":"mount.nfs: nas timed out"}' WHERE pool_id = $1 AND host_id = $2`, s.nfs, s.h2)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,memoryBytes}', '1') WHERE id = $1`, s.h1)
	in := control.CreateVM{ProjectID: s.red, Name: "web", Spec: smallSpec}
	in.Spec.Disks = []fleet.Disk{{PoolID: s.nfs, SizeBytes: 1}}
	create := func(a fleet.Actor) func() error {
		return func() error { _, err := s.CreateVM(t.Context(), a, in); return err }
	}
	s.wantRefused("a member's choice", fleet.Invalid, "No host can take this VM. 1 host: not enough memory; 1 host: pool nfs is failed.", create(s.member))
	s.wantRefused("an administrator's", fleet.Invalid, "No host can take this VM. h1: h1 has 0 MiB of memory in all; this VM needs 256; h2: Pool nfs is failed on h2: mount.nfs: nas timed out.", create(chief))
	in.HostID = s.h2
	s.wantRefused("a host named by a member", fleet.Invalid, "Pool nfs is failed.", create(s.member))
	s.wantRefused("a host named by an administrator", fleet.Invalid, "Pool nfs is failed on h2: mount.nfs: nas timed out", create(chief))

	edit := editedSpec(v, func(s *fleet.VMSpec) { s.MemoryMiB += 64 })
	s.wantRefused("a member's edit", fleet.Invalid, "Not enough memory.", func() error { _, _, err := s.UpdateVM(t.Context(), s.member, v.ID, edit); return err })
}

func TestPlacementSpreadsByFreeMemory(t *testing.T) {
	s := newProjectFixture(t)
	var hosts []string
	for _, name := range []string{"a", "b", "c"} {
		v, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: name, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 7000}})
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, v.HostName)
	}
	if got := strings.Join(hosts, " "); got != "h1 h1 h2" {
		t.Errorf("placed on %s, want h1 h1 h2", got)
	}
}

func TestVMDiskRefusedAsImageOfNewVM(t *testing.T) {
	s := newProjectFixture(t)
	v, err := s.CreateVM(t.Context(), chief, control.CreateVM{
		ProjectID: s.blue, Name: "secret", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{{PoolID: s.nfs, SizeBytes: 1 << 30}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	disk, leftover := v.Spec.Disks[0].Volume, "gone-0123456789ab-1.qcow2"
	for _, volume := range []string{disk, leftover} {
		s.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', status->'volumes' || jsonb_build_object('name', $1::text, 'format', 'qcow2', 'path', '/v/' || $1)) WHERE noun = 'pool'`, volume)
	}
	s.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', status->'volumes' || '{"name":"found.raw","format":"raw","path":"/v/found.raw"}') WHERE noun = 'pool'`)
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, gen_random_uuid()::text, 'old', '{"power":"running","disks":[{"path":"/v/found.raw"}]}')`, s.h1)
	for _, volume := range []string{disk, leftover, "found.raw"} {
		in := control.CreateVM{ProjectID: s.red, Name: "thief", Spec: smallSpec}
		in.Spec.Disks = []fleet.Disk{{PoolID: s.nfs, Image: &fleet.Volref{PoolID: s.nfs, Volume: volume}}}
		s.wantRefused("clone "+volume, fleet.Invalid, "no volume", func() error { _, err := s.CreateVM(t.Context(), s.member, in); return err })
	}
	names := func(volumes []query.VolumeOn, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, v := range volumes {
			all = append(all, v.Name)
		}
		return strings.Join(all, " ")
	}
	if got := names(s.PoolVolumes(t.Context(), s.member, s.nfs)); got != "cd.iso debian.qcow2" {
		t.Errorf("a member of another project sees %s", got)
	}
	if got := names(s.PoolVolumes(t.Context(), s.blueMember, s.nfs)); got != "cd.iso debian.qcow2 "+disk {
		t.Errorf("the owner sees %s", got)
	}
	if got := names(s.PoolVolumes(t.Context(), chief, s.nfs)); got != "cd.iso debian.qcow2 found.raw "+leftover+" "+disk {
		t.Errorf("the administrator sees %s", got)
	}
	if got := names(s.Images(t.Context(), chief)); got != "debian.qcow2 debian.qcow2" { // in the pools local and nfs
		t.Errorf("images: %s", got)
	}
	if got := names(s.ISOs(t.Context(), s.member)); got != "cd.iso cd.iso" {
		t.Errorf("ISOs: %s", got)
	}
}

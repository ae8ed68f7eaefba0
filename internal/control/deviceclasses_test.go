package control_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/deviceclasses"
	"quantix/internal/deviceclass"
	"quantix/internal/event"
	"quantix/internal/fleet"
	"quantix/internal/quota"
	"quantix/internal/wire"
)

const (
	gpu0 = "pci/0000:41:00.0"
	gpu1 = "pci/0000:42:00.0"
)

// newDeviceFixture returns a fixture whose hosts have two GPUs each and a USB device. All agents support all fields.
func newDeviceFixture(t *testing.T) *libraryFixture {
	t.Helper()
	s := newLibraryFixture(t)
	const devices = `[{"device":"` + gpu0 + `","name":"NVIDIA A100","class":"0x030200","iommu":"17"},
		{"device":"` + gpu1 + `","name":"NVIDIA A100","class":"0x030200","iommu":"18"},
		{"device":"usb/046d:c52b","name":"Receiver"},{"device":"blk/wwn-0x5000","name":"Disk"}]`
	s.supportAllFields(devices)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,devices}', $2::jsonb) WHERE id = $1`, s.h2, devices)
	s.imageOnOneHost()
	return s
}

func members(host fleet.HostID, devices ...string) (out []deviceclass.ClassMember) {
	for _, d := range devices {
		out = append(out, deviceclass.ClassMember{HostID: host, Device: d})
	}
	return out
}

// deviceClass adds a device class that is published to the projects; an empty project means all.
func (s *projectFixture) deviceClass(name string, of []deviceclass.ClassMember, projects ...fleet.ProjectID) fleet.DeviceClassID {
	s.t.Helper()
	v, err := s.CreateDeviceClass(s.t.Context(), chief, deviceclass.ClassDefinition{Name: name, Members: of})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range projects {
		if err := s.GrantDeviceClass(s.t.Context(), chief, v.ID, p); err != nil {
			s.t.Fatal(err)
		}
	}
	return v.ID
}

func withClass(id fleet.DeviceClassID, count int) fleet.VMSpec {
	spec := smallSpec
	spec.DeviceClasses = []fleet.VMDeviceClass{{ClassID: id, Count: count}}
	return spec
}

func (s *projectFixture) createWithClass(a fleet.Actor, name string, id fleet.DeviceClassID, count int) (fleet.VMView, error) {
	return s.CreateVM(s.t.Context(), a, control.CreateVM{ProjectID: s.red, Name: name, Spec: withClass(id, count)})
}

func (s *projectFixture) allocated(vm fleet.VMID) string {
	s.t.Helper()
	devices, err := s.AllocatedDevices(s.t.Context(), chief, vm)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, d := range devices {
		out = append(out, d...)
	}
	return strings.Join(out, ", ")
}

func (s *projectFixture) freeText(id fleet.DeviceClassID) string {
	s.t.Helper()
	c, err := s.GetDeviceClass(s.t.Context(), chief, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return c.FreeText()
}

func TestDeviceClassGivesTenantDevicesWithoutNamingHosts(t *testing.T) {
	s := newDeviceFixture(t)
	id := s.deviceClass("gpu-a100", slices.Concat(members(s.h1, gpu0), members(s.h2, gpu0)), s.red)
	first, err := s.createWithClass(s.member, "one", id, 0)
	if err != nil {
		t.Fatal(err)
	}
	if d := first.Spec.DeviceClasses; len(d) != 1 || d[0].ClassName != "gpu-a100" || len(first.Spec.HostDevices) != 0 {
		t.Errorf("the tenant's VM has %+v and %+v", d, first.Spec.HostDevices)
	}
	second, err := s.createWithClass(s.member, "two", id, 1)
	if err != nil {
		t.Fatal(err)
	}
	if x, y := s.getVM(first.ID), s.getVM(second.ID); x.HostID == y.HostID || s.allocated(x.ID) != gpu0 || s.allocated(y.ID) != gpu0 {
		t.Errorf("the VMs are on %s with %s and on %s with %s", x.HostName, s.allocated(x.ID), y.HostName, s.allocated(y.ID))
	}
	s.wantRefused("a third VM", fleet.Invalid, "no free device of gpu-a100", func() error {
		_, err := s.createWithClass(s.member, "three", id, 1)
		if strings.Contains(fmt.Sprint(err), "h1") || strings.Contains(fmt.Sprint(err), "0000:") {
			t.Errorf("the tenant's error names a host or device: %v", err)
		}
		return err
	})
	s.wantRefused("a third VM of an administrator", fleet.Invalid, "h1 has no free device of gpu-a100: 1 of 1 is in use;", func() error {
		_, err := s.createWithClass(chief, "three", id, 1)
		return err
	})
	c, err := s.GetDeviceClass(t.Context(), s.member, id)
	text, _ := json.Marshal(c)
	if err != nil || c.Free != 0 || c.Total != 2 || !c.GPU || strings.Contains(string(text), "0000:") || strings.Contains(string(text), "h1") {
		t.Errorf("the tenant sees %s, %v", text, err)
	}
	c, err = s.GetDeviceClass(t.Context(), chief, id)
	if err != nil || len(c.Members) != 2 || c.Members[0].State != deviceclass.Used || len(c.Members[0].VMs) != 1 {
		t.Errorf("the administrator sees %+v, %v", c.Members, err)
	}
}

// The agent gets the device as if an operator had chosen it.
func TestClaimedSpecHasAllocatedDevices(t *testing.T) {
	s := newDeviceFixture(t)
	id := s.deviceClass("gpu-a100", members(s.h1, gpu0, gpu1), "")
	vm, err := s.createWithClass(s.member, "one", id, 2)
	if err != nil {
		t.Fatal(err)
	}
	w := s.claimOnlyJob(s.h1, fleet.VMApply)
	want := []fleet.VMHostDevice{{HostID: s.h1, Device: gpu0}, {HostID: s.h1, Device: gpu1}}
	if w.VM == nil || w.VM.ID != vm.ID || !slices.Equal(w.VM.Spec.HostDevices, want) || len(w.VM.Spec.DeviceClasses) != 0 {
		t.Errorf("the agent gets %+v", w.VM.Spec)
	}
	var stored string
	if err := s.pool.QueryRow(t.Context(), `SELECT spec::text FROM vms WHERE id = $1`, vm.ID).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stored, "0000:") || strings.Contains(stored, "gpu-a100") {
		t.Errorf("the stored spec has more than the class's ID: %s", stored)
	}
}

func TestConcurrentCreationsGetLastDeviceOnce(t *testing.T) {
	s := newDeviceFixture(t)
	id := s.deviceClass("gpu-a100", members(s.h1, gpu0), s.red)
	const n = 6
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if i == 0 { // an operator chooses the device itself
				spec := smallSpec
				spec.HostDevices = []fleet.VMHostDevice{{Device: gpu0}}
				_, errs[i] = s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: "explicit", Spec: spec})
				return
			}
			_, errs[i] = s.createWithClass(s.member, fmt.Sprintf("vm-%d", i), id, 1)
		})
	}
	all.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else if fleet.CodeOf(err) != fleet.Invalid {
			t.Errorf("%q %v", fleet.CodeOf(err), err)
		}
	}
	if made != 1 {
		t.Errorf("%d VMs got the only device: %v", made, errs)
	}
}

func TestDeviceIsNotGivenBothByOperatorAndByClass(t *testing.T) {
	s := newDeviceFixture(t)
	id := s.deviceClass("gpu-a100", members(s.h1, gpu0), s.red)
	explicit := smallSpec
	explicit.HostDevices = []fleet.VMHostDevice{{Device: gpu0}}
	create := func(name string) (fleet.VMView, error) {
		return s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: explicit})
	}
	vm, err := s.createWithClass(s.member, "one", id, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a device that a class gave away", fleet.Invalid, "already assigned to the VM one", func() error { _, err := create("two"); return err })
	s.wantRefused("twice to one VM", fleet.Invalid, "already assigned to the VM one", func() error {
		_, _, err := s.UpdateVM(t.Context(), chief, vm.ID, editedSpec(s.getVM(vm.ID), func(v *fleet.VMSpec) { v.HostDevices = explicit.HostDevices }))
		return err
	})
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = '{"power":"stopped","cpus":1,"memoryMiB":256}'`)
	if _, _, err := s.UpdateVM(t.Context(), s.member, vm.ID, editedSpec(s.getVM(vm.ID), func(v *fleet.VMSpec) { v.DeviceClasses = nil })); err != nil {
		t.Fatal(err)
	}
	if got := s.freeText(id); got != "1 of 1 free" {
		t.Errorf("after the edit, %s", got)
	}
	if _, err := create("two"); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a device that an operator gave away", fleet.Invalid, "no free device of gpu-a100", func() error {
		_, err := s.createWithClass(s.member, "three", id, 1)
		return err
	})
}

func TestEditChangesNumberOfDevices(t *testing.T) {
	s := newDeviceFixture(t)
	id := s.deviceClass("gpu-a100", members(s.h1, gpu0, gpu1), s.red)
	vm, err := s.createWithClass(s.member, "one", id, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = '{"power":"stopped","cpus":1,"memoryMiB":256}'`)
	edit := func(count int) error {
		got, _, err := s.UpdateVM(t.Context(), s.member, vm.ID, editedSpec(vm, func(v *fleet.VMSpec) {
			v.DeviceClasses = []fleet.VMDeviceClass{{ClassID: id, Count: count}}
		}))
		if err == nil {
			vm = got
		}
		return err
	}
	if err := edit(2); err != nil || s.allocated(vm.ID) != gpu0+", "+gpu1 {
		t.Fatalf("%v, the VM has %s", err, s.allocated(vm.ID))
	}
	if got := s.auditActions("vm.edit"); !strings.Contains(got, "one") {
		t.Errorf("audited: %s", got)
	}
	s.wantRefused("three of two", fleet.Invalid, "oo few free devices of gpu-a100", func() error { return edit(3) })
	if err := edit(1); err != nil || s.allocated(vm.ID) != gpu0 || s.freeText(id) != "1 of 2 free" {
		t.Errorf("%v, the VM has %s, %s", err, s.allocated(vm.ID), s.freeText(id))
	}
	// A withdrawn class stays, but gives no further device and has no name.
	if err := s.RevokeDeviceClass(t.Context(), chief, id, s.red); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a second device of a withdrawn class", fleet.Invalid, "There is no such device class", func() error { return edit(2) })
	if _, _, err := s.UpdateVM(t.Context(), s.member, vm.ID, editedSpec(vm, func(v *fleet.VMSpec) { v.CPUs = 2 })); err != nil {
		t.Errorf("an edit of another field: %v", err)
	}
	shown, err := s.GetVM(t.Context(), s.member, vm.ID)
	if err != nil || shown.Spec.DeviceClasses[0].ClassName != "" || s.allocated(vm.ID) != gpu0 {
		t.Errorf("%+v %v", shown.Spec.DeviceClasses, err)
	}
}

func TestColdMigrationAllocatesDevicesOnTarget(t *testing.T) {
	s := newDeviceFixture(t)
	id := s.deviceClass("gpu-a100", slices.Concat(members(s.h1, gpu0), members(s.h2, gpu1)), s.red)
	vm, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "one", Spec: withClass(id, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now()`)
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = '{"power":"stopped","cpus":1,"memoryMiB":256}'`)
	v := s.getVM(vm.ID)
	source, target, was, is := s.h1, s.h2, gpu0, gpu1
	if v.HostID == s.h2 {
		source, target, was, is = s.h2, s.h1, gpu1, gpu0
	}
	if _, err := s.MigrateVM(t.Context(), chief, v.ID, control.MigrateVM{HostID: target}); err != nil {
		t.Fatal(err)
	}
	if got := s.freeText(id); got != "0 of 2 free" || s.allocated(v.ID) != was {
		t.Errorf("during the migration, %s and the VM has %s", got, s.allocated(v.ID))
	}
	w := s.claimOnlyJob(source, fleet.VMMigrate)
	s.finishJobWith(source, w, wire.Finish{Outcome: wire.Done, Generation: w.Generation, VM: &fleet.VMStatus{Power: fleet.Absent}})
	if got := s.getVM(v.ID); got.HostID != target || s.allocated(v.ID) != is || s.freeText(id) != "1 of 2 free" {
		t.Errorf("the VM is on %s with %s, %s", got.HostName, s.allocated(v.ID), s.freeText(id))
	}
	apply := s.claimOnlyJob(target, fleet.VMApply)
	if d := apply.VM.Spec.HostDevices; len(d) != 1 || d[0].Device != is {
		t.Errorf("the target's agent gets %+v", d)
	}
}

func TestFailedMigrationFreesDevicesOnTarget(t *testing.T) {
	s := newDeviceFixture(t)
	id := s.deviceClass("gpu-a100", slices.Concat(members(s.h1, gpu0), members(s.h2, gpu0)), s.red)
	vm, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: "one", Spec: withClass(id, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now()`)
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = '{"power":"stopped","cpus":1,"memoryMiB":256}'`)
	migrate := func() error {
		_, err := s.MigrateVM(t.Context(), chief, vm.ID, control.MigrateVM{HostID: s.h2})
		return err
	}
	if err := migrate(); err != nil {
		t.Fatal(err)
	}
	w := s.claimOnlyJob(s.h1, fleet.VMMigrate)
	s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Failed, Generation: w.Generation, Error: "no route"})
	if got := s.freeText(id); got != "1 of 2 free" {
		t.Errorf("after the failure, %s", got)
	}
	if _, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "two", Spec: withClass(id, 1)}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("again", fleet.Invalid, "h2 has no free device of gpu-a100", migrate)
}

func TestClonesAndTemplatesGetDevicesOfTheirOwn(t *testing.T) {
	s := newDeviceFixture(t)
	id := s.deviceClass("gpu-a100", members(s.h1, gpu0, gpu1), s.red)
	vm, err := s.createWithClass(s.member, "one", id, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now()`)
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = '{"power":"stopped","cpus":1,"memoryMiB":256}'`)
	clone, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "two", From: &control.VMSource{VMID: vm.ID}})
	if err != nil || s.allocated(clone.ID) != gpu1 || s.allocated(vm.ID) != gpu0 {
		t.Fatalf("%v: the VMs have %s and %s", err, s.allocated(vm.ID), s.allocated(clone.ID))
	}
	s.wantRefused("a third one", fleet.Invalid, "no free device of gpu-a100", func() error {
		_, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "three", From: &control.VMSource{VMID: vm.ID}})
		return err
	})
}

func TestDeletedVMFreesItsDevice(t *testing.T) {
	s := newDeviceFixture(t)
	id := s.deviceClass("gpu-a100", members(s.h1, gpu0), s.red)
	vm, err := s.createWithClass(s.member, "one", id, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.wantRefused("delete a class in use", fleet.Conflict, "VMs use the device class: one.", func() error { return s.DeleteDeviceClass(t.Context(), chief, id) })
	s.wantRefused("remove a device in use", fleet.Invalid, "A VM uses "+gpu0, func() error {
		_, err := s.UpdateDeviceClass(t.Context(), chief, id, deviceclasses.DeviceClassChange{ClassDefinition: deviceclass.ClassDefinition{Name: "gpu-a100"}})
		return err
	})
	s.execSQL(`UPDATE vms SET recycled_at = now(), bin_counted = true, deleted_at = NULL WHERE id = $1`, vm.ID)
	if got := s.freeText(id); got != "0 of 1 free" {
		t.Errorf("with the VM in the recycle bin, %s", got)
	}
	s.execSQL(`DELETE FROM vms WHERE id = $1`, vm.ID)
	if got := s.freeText(id); got != "1 of 1 free" {
		t.Errorf("after the deletion, %s", got)
	}
	if err := s.DeleteDeviceClass(t.Context(), chief, id); err != nil {
		t.Error(err)
	}
}

func TestGPUsOfClassCountTowardsQuota(t *testing.T) {
	s := newDeviceFixture(t)
	gpus := s.deviceClass("gpu-a100", members(s.h1, gpu0, gpu1), s.red)
	usb := s.deviceClass("receiver", members(s.h1, "usb/046d:c52b"), s.red)
	s.setQuota(s.red, quota.Quota{GPUs: limit(1)})
	s.wantRefused("two GPUs", fleet.Invalid, "1 of 1 GPUs left", func() error { _, err := s.createWithClass(s.member, "two", gpus, 2); return err })
	if _, err := s.createWithClass(s.member, "one", gpus, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.createWithClass(s.member, "usb", usb, 1); err != nil {
		t.Fatal(err)
	}
	if u := s.usage(s.red); u.GPUs != 1 || u.HostDevices != 2 {
		t.Errorf("the project uses %d GPUs and %d host devices", u.GPUs, u.HostDevices)
	}
	s.wantRecount("after the creations")
}

func TestTenantSeesOnlyPublishedDeviceClasses(t *testing.T) {
	s := newDeviceFixture(t)
	reader := s.newEventReader(s.member)
	id := s.deviceClass("secret-gpu", members(s.h1, gpu0), s.blue)
	s.wantRefused("a VM with a hidden class", fleet.Invalid, "There is no such device class, or none that is published", func() error {
		_, err := s.createWithClass(s.member, "one", id, 1)
		return err
	})
	s.wantRefused("a VM with an unknown class", fleet.Invalid, "There is no such device class, or none that is published", func() error {
		_, err := s.createWithClass(s.member, "one", fleet.NewID[fleet.DeviceClassID](), 1)
		return err
	})
	_, err := s.GetDeviceClass(t.Context(), s.member, id)
	wantCode(t, err, fleet.NotFound)
	all, err := s.ListDeviceClasses(t.Context(), s.member)
	if err != nil || len(all) != 0 {
		t.Errorf("listed: %+v %v", all, err)
	}
	found, err := s.Search(t.Context(), s.member, "secret", 8)
	text, _ := json.Marshal(found)
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("found: %s %v", text, err)
	}
	events, err := s.ReadEvents(t.Context(), s.member, event.Query{After: reader.at})
	text, _ = json.Marshal(events)
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("events: %s %v", text, err)
	}
	if all, err := s.ListDeviceClasses(t.Context(), s.blueMember); err != nil || len(all) != 1 || all[0].Members != nil {
		t.Errorf("a member of blue gets %+v %v", all, err)
	}
	if _, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "one", Spec: withClass(id, 1)}); err != nil {
		t.Fatalf("an administrator: %v", err)
	}
}

func TestDeviceClassMembersAreChecked(t *testing.T) {
	s := newDeviceFixture(t)
	s.deviceClass("gpu-a100", members(s.h1, gpu0))
	for says, of := range map[string][]deviceclass.ClassMember{
		"is in the device class gpu-a100 already": members(s.h1, gpu0),
		"h1 reports no device pci/0000:99:00.0":   members(s.h1, "pci/0000:99:00.0"),
		"A whole disk cannot be in":               members(s.h1, "blk/wwn-0x5000"),
		"is listed twice":                         members(s.h1, gpu1, gpu1),
		"Create two classes":                      members(s.h1, gpu1, "usb/046d:c52b"),
		"There is no such host":                   members(fleet.NewID[fleet.HostID](), gpu1),
	} {
		s.wantRefused(says, fleet.Invalid, says, func() error {
			_, err := s.CreateDeviceClass(t.Context(), chief, deviceclass.ClassDefinition{Name: "other", Members: of})
			return err
		})
	}
	// A device that its host reports no more stays in the class, shown as missing.
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,devices}', '[]') WHERE id = $1`, s.h1)
	all, err := s.ListDeviceClasses(t.Context(), chief)
	if err != nil || len(all) != 1 || all[0].Total != 0 {
		t.Fatalf("%+v %v", all, err)
	}
	c, err := s.GetDeviceClass(t.Context(), chief, all[0].ID)
	if err != nil || c.Members[0].State != deviceclass.Missing || c.FreeText() != "no devices" {
		t.Errorf("%+v %v", c, err)
	}
	s.wantRefused("a VM with a missing device", fleet.Invalid, "h1 has no device of gpu-a100", func() error {
		_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: "one", Spec: withClass(c.ID, 1)})
		return err
	})
	c2, err := s.UpdateDeviceClass(t.Context(), chief, c.ID, deviceclasses.DeviceClassChange{ClassDefinition: deviceclass.ClassDefinition{Name: "gpu", Members: c.Definition().Members}, IfGeneration: c.Generation})
	if err != nil || c2.Name != "gpu" || !c2.GPU {
		t.Errorf("%+v %v", c2, err)
	}
}

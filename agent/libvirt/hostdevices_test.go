//go:build linux && ordeal

package libvirt_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hardware"
	"quantix/agent/libvirt"
	"quantix/internal/fleet"
)

// fakeSysAgent is an agent with a fake /sys, because the test kernel has no devices to pass through.
type fakeSysAgent struct {
	fixture
	root string
}

func newFakeSysAgent(t *testing.T) fakeSysAgent {
	t.Helper()
	requireLabHost(t)
	r := fakeSysAgent{root: t.TempDir()}
	r.fixture.t = t
	r.writeSys(mdevTypeDir+"available_instances", "2\n")
	r.writeSys(mdevTypeDir+"create", "")
	b, err := libvirt.Open(t.Context(), libvirt.Options{
		Socket: libvirt.DefaultSocket, Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), PoolRoots: tempDirRoots, PoolBook: sharedPoolBook, Devices: hardware.HostDevices{Root: r.root},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	r.fixture = newFixtureOn(t, b)
	return r
}

const mdevTypeDir = "class/mdev_bus/0000:41:00.0/mdev_supported_types/nvidia-63/"

func (r fakeSysAgent) writeSys(file, text string) {
	r.t.Helper()
	path := filepath.Join(r.root, "sys", file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r fakeSysAgent) readSys(file string) string {
	text, _ := os.ReadFile(filepath.Join(r.root, "sys", file))
	return string(text)
}

// plugIn adds a device at USB port 250-2.3.
func (r fakeSysAgent) plugIn(number string) {
	for file, text := range map[string]string{"busnum": "250", "devnum": number, "idVendor": "046d", "idProduct": "c52b", "bDeviceClass": "00"} {
		r.writeSys("bus/usb/devices/250-2.3/"+file, text+"\n")
	}
}

// addMdev changes the fake /sys as the kernel does after the creation of a mediated device.
func (r fakeSysAgent) addMdev(id string) {
	r.t.Helper()
	r.writeSys("bus/mdev/devices/"+id+"/remove", "")
	if err := os.Symlink("../mdev_supported_types/nvidia-63", filepath.Join(r.root, "sys/bus/mdev/devices", id, "mdev_type")); err != nil {
		r.t.Fatal(err)
	}
	r.writeSys(mdevTypeDir+"create", "")
}

// The agent looks up USB devices and creates mediated devices at the guest's start, and removes mediated devices with
// the VM. The start then fails in libvirt, because the devices of the fake /sys do not exist.
func TestStartResolvesHostDevices(t *testing.T) {
	t.Parallel()
	f := newFakeSysAgent(t)
	vm := f.newVM()
	vm.Spec.HostDevices = []fleet.VMHostDevice{{Device: "usb-port/250-2.3"}}
	f.apply(vm)
	defined := func() string { return virsh(t, "dumpxml", "--inactive", string(vm.ID)) }
	if x := defined(); !strings.Contains(x, `<address bus='250' device='0'/>`) {
		t.Errorf("before the first start the definition has a device: %s", x)
	}
	requireValidDefinition(t, vm.ID)
	for _, number := range []string{"7", "9"} { // a replugged device has a new number
		f.plugIn(number)
		err := f.StartVM(t.Context(), vm.ID)
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "usb") {
			t.Errorf("started with a missing device: %v", err)
		}
		if x := defined(); !strings.Contains(x, `<address bus='250' device='`+number+`'/>`) || !strings.Contains(x, `<vendor id='0x046d'/>`) {
			t.Errorf("the definition does not have device number %s: %s", number, x)
		}
		if s, _, err := f.VM(t.Context(), vm.ID); err != nil || len(s.Drift) != 0 {
			t.Errorf("the resolved device counts as drift: %+v, %v", s.Drift, err)
		}
	}

	vm.Generation++
	vm.Spec.HostDevices = []fleet.VMHostDevice{{Device: "mdev/nvidia-63"}}
	f.apply(vm)
	id := hardware.MdevID(string(vm.ID), "nvidia-63")
	if x := defined(); !strings.Contains(x, "<address uuid='"+id+"'/>") {
		t.Errorf("the definition does not have the device %s: %s", id, x)
	}
	requireValidDefinition(t, vm.ID)
	err := f.StartVM(t.Context(), vm.ID)
	if written := f.readSys(mdevTypeDir + "create"); err == nil || written != id || !strings.Contains(strings.ToLower(err.Error()), "mediated") {
		t.Errorf("the kernel got the request for %q, and libvirt's error is: %v", written, err)
	}
	f.addMdev(id)
	removed := func() bool { return f.readSys("bus/mdev/devices/"+id+"/remove") == "1" }
	if err := f.StartVM(t.Context(), vm.ID); err == nil {
		t.Error("started with a missing device")
	}
	if written := f.readSys(mdevTypeDir + "create"); written != "" || removed() {
		t.Errorf("the existing device was created again as %q, or removed", written)
	}
	vm.Generation++
	vm.Spec.HostDevices = nil
	f.apply(vm)
	if !removed() {
		t.Error("the detached device still exists")
	}
	f.writeSys("bus/mdev/devices/"+id+"/remove", "")
	f.requireNoError(f.DeleteVM(t.Context(), vm, []fleet.Pool{f.pool}, true))
	if !removed() {
		t.Error("the device still exists after the deletion of the VM")
	}
}

// At hot-plug the agent looks up the USB device at the port and creates the mediated device. libvirt then fails,
// because the devices of the fake /sys do not exist. A mediated device that the spec no longer has is removed.
func TestHotPlugResolvesHostDevices(t *testing.T) {
	t.Parallel()
	f := newFakeSysAgent(t)
	vm := f.newVM()
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	give := func(device string) error {
		vm.Generation++
		vm.Spec.HostDevices = []fleet.VMHostDevice{{Device: device}}
		return f.ApplyVM(t.Context(), applyJob(vm, f.pool))
	}
	id := hardware.MdevID(string(vm.ID), "nvidia-63")
	for _, c := range []struct {
		device, want string
		before       func()
	}{
		{"usb-port/250-2.3", "has no device that a guest could use", func() {}},
		{"usb/dead:beef", "/bus/usb/devices", func() {}}, // a real device of the test kernel does not exist
		{"usb-port/250-2.3", "/bus/usb/devices", func() { f.plugIn("7") }},
		{"pci/00ff:41:1f.7", "host doesn't support passthrough of host pci devices", func() {}},
		{"mdev/quantix-none", "cannot create another mediated device of the type quantix-none", func() {}},
		{"mdev/nvidia-63", "mediated", func() {}},
	} {
		c.before()
		for _, err := range []error{give(c.device), f.ApplyVM(t.Context(), applyJob(vm, f.pool))} {
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), c.want) {
				t.Errorf("%s: %v, want %q", c.device, err, c.want)
			}
		}
		s, _, err := f.VM(t.Context(), vm.ID)
		if f.requireNoError(err); s.Power != fleet.Running || !slices.Equal(s.NextBoot, []string{"hostDevices"}) || len(s.PendingUnplug)+len(s.Drift) != 0 {
			t.Errorf("%s: the guest is %+v", c.device, s)
		}
	}
	if written := f.readSys(mdevTypeDir + "create"); written != id {
		t.Errorf("the kernel got the request for %q", written)
	}
	f.addMdev(id)
	vm.Generation++
	vm.Spec.HostDevices = nil
	f.apply(vm)
	if s, _, err := f.VM(t.Context(), vm.ID); err != nil || len(s.NextBoot) != 0 || f.readSys("bus/mdev/devices/"+id+"/remove") != "1" {
		t.Errorf("without devices: %+v, %v", s, err)
	}
}

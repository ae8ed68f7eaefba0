//go:build linux

package libvirt_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/hardware"
	"quantix/agent/libvirt"
	"quantix/internal/fleet"
)

// What a guest is to have is looked up and made when it starts, and goes with its VM. The kernel here has neither, so its /sys is a recorded one, and
// the start goes as far as libvirt, which has no such device.
func TestDevicesAreFoundAndMadeAtTheStart(t *testing.T) {
	t.Parallel()
	needHost(t)
	root := t.TempDir()
	put := func(file, text string) {
		t.Helper()
		path := filepath.Join(root, "sys", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plug := func(number string) {
		for file, text := range map[string]string{"busnum": "250", "devnum": number, "idVendor": "046d", "idProduct": "c52b", "bDeviceClass": "00"} {
			put("bus/usb/devices/250-2.3/"+file, text+"\n")
		}
	}
	const kind = "class/mdev_bus/0000:41:00.0/mdev_supported_types/nvidia-63/"
	put(kind+"available_instances", "2\n")
	put(kind+"create", "")
	b, err := libvirt.Open(t.Context(), libvirt.Options{
		Socket: libvirt.DefaultSocket, Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Roots: roots, Book: book, Devices: hardware.Devices{Root: root},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	f := newFixtureOn(t, b)
	vm := f.vm()
	vm.Spec.HostDevices = []fleet.VMHostDevice{{Device: "usb-port/250-2.3"}}
	f.apply(vm)
	defined := func() string { return virsh(t, "dumpxml", "--inactive", string(vm.ID)) }
	if x := defined(); !strings.Contains(x, `<address bus='250' device='0'/>`) {
		t.Errorf("before its first start the guest has a device: %s", x)
	}
	validated(t, vm.ID)
	for _, number := range []string{"7", "9"} { // plugged in anew it has another
		plug(number)
		err := f.StartVM(t.Context(), vm.ID)
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "usb") {
			t.Errorf("started with a device that is not there: %v", err)
		}
		if x := defined(); !strings.Contains(x, `<address bus='250' device='`+number+`'/>`) || !strings.Contains(x, `<vendor id='0x046d'/>`) {
			t.Errorf("defined with another device than number %s: %s", number, x)
		}
		if s, _, err := f.VM(t.Context(), vm.ID); err != nil || len(s.Drift) != 0 {
			t.Errorf("what was found counts as somebody's change: %+v, %v", s.Drift, err)
		}
	}

	vm.Generation++
	vm.Spec.HostDevices = []fleet.VMHostDevice{{Device: "mdev/nvidia-63"}}
	f.apply(vm)
	id := hardware.MdevID(string(vm.ID), "nvidia-63")
	if x := defined(); !strings.Contains(x, "<address uuid='"+id+"'/>") {
		t.Errorf("the definition has another device than %s: %s", id, x)
	}
	validated(t, vm.ID)
	err = f.StartVM(t.Context(), vm.ID)
	if said, _ := os.ReadFile(filepath.Join(root, "sys", kind, "create")); err == nil || string(said) != id || !strings.Contains(strings.ToLower(err.Error()), "mediated") {
		t.Errorf("the kernel was asked for %q, and libvirt says: %v", said, err)
	}
	// The kernel has made it.
	put("bus/mdev/devices/"+id+"/remove", "")
	if err := os.Symlink("../mdev_supported_types/nvidia-63", filepath.Join(root, "sys/bus/mdev/devices", id, "mdev_type")); err != nil {
		t.Fatal(err)
	}
	put(kind+"create", "")
	removed := func() bool {
		said, _ := os.ReadFile(filepath.Join(root, "sys/bus/mdev/devices", id, "remove"))
		return string(said) == "1"
	}
	if err := f.StartVM(t.Context(), vm.ID); err == nil {
		t.Error("started with a device that is not there")
	}
	if said, _ := os.ReadFile(filepath.Join(root, "sys", kind, "create")); len(said) != 0 || removed() {
		t.Errorf("what is there was made anew, as %q, or is removed", said)
	}
	vm.Generation++
	vm.Spec.HostDevices = nil
	f.apply(vm)
	if !removed() {
		t.Error("taken out of the VM, it stays")
	}
	put("bus/mdev/devices/"+id+"/remove", "")
	f.ok(f.DeleteVM(t.Context(), vm, []fleet.Pool{f.pool}, true))
	if !removed() {
		t.Error("the VM is gone, and it stays")
	}
}

package hardware

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A device is found by its port, and a hub is no device for a guest.
func TestUSBDeviceIsFoundByPort(t *testing.T) {
	t.Parallel()
	d := HostDevices{unpackTree(t, recordedServerTree)}
	if got, err := d.USBAt("1-4.1"); err != nil || got != (USBDevice{1, 12, "0529", "0620"}) {
		t.Errorf("at 1-4.1: %+v, %v", got, err)
	}
	// a hub, two free ports, a port that does not exist, and a port whose device has no number
	for _, port := range []string{"1-4", "1-4.2", "1-10", "9-9", "1-1"} {
		if got, err := d.USBAt(port); !errors.Is(err, ErrUSBPortEmpty) {
			t.Errorf("at %s: %+v, %v", port, got, err)
		}
	}
	for _, port := range []string{"", "usb1", "../1-4.1", "1-4.1/..", "1-0:1.0", "1-4.1.1.1.1.1.1.1", "1-4.", "-1"} {
		if got, err := d.USBAt(port); err == nil || errors.Is(err, ErrUSBPortEmpty) {
			t.Errorf("%q is a port: %+v", port, got)
		}
	}
}

// A mediated device is created once, on a device with capacity, and removed when its VM no longer has it. Devices of
// other VMs stay.
func TestMediatedDevicesAreCreatedAndRemoved(t *testing.T) {
	t.Parallel()
	root := unpackTree(t, recordedServerTree)
	d, vm, other := HostDevices{root}, "01a206b5-2a62-7003-a101-340befa69b68", "01a206b5-2a62-7003-a101-340befa69b69"
	kind := func(parent, name, file string) string {
		return filepath.Join(root, "sys/class/mdev_bus", parent, "mdev_supported_types", name, file)
	}
	asked := func(file string) string {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	made := func(vm, name string) string { // made writes what the kernel would write
		id := MdevID(vm, name)
		dir := filepath.Join(root, "sys/bus/mdev/devices", id)
		writeFile(t, filepath.Join(dir, "remove"), "")
		if err := os.Symlink("../mdev_supported_types/"+name, filepath.Join(dir, "mdev_type")); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "remove")
	}
	if err := d.CreateMdev(vm, "nvidia-1147"); err == nil || errors.Is(err, ErrNoMdevFree) {
		t.Errorf("a kernel that accepts no request: %v", err)
	}
	if _, err := os.Stat(kind("0000:41:00.0", "nvidia-1147", "create")); err == nil {
		t.Error("a file was made in place of the kernel's")
	}
	writeFile(t, kind("0000:42:00.0", "nvidia-1147", "create"), "")
	if err := d.CreateMdev(vm, "nvidia-1147"); err != nil || asked(kind("0000:42:00.0", "nvidia-1147", "create")) != MdevID(vm, "nvidia-1147") {
		t.Errorf("the second parent was asked for %q, %v", asked(kind("0000:42:00.0", "nvidia-1147", "create")), err)
	}
	for _, name := range []string{"nvidia-1148", "nvidia-9"} { // no capacity, unknown
		if err := d.CreateMdev(vm, name); !errors.Is(err, ErrNoMdevFree) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "..", "../nvidia-1147", "nvidia-1147/..", "it is none"} {
		if err := d.CreateMdev(vm, name); err == nil || errors.Is(err, ErrNoMdevFree) {
			t.Errorf("%q is a type: %v", name, err)
		}
	}

	first, second, theirs := made(vm, "nvidia-1147"), made(vm, "nvidia-1148"), made(other, "nvidia-1147")
	if err := os.Remove(kind("0000:42:00.0", "nvidia-1147", "create")); err != nil {
		t.Fatal(err)
	}
	if err := d.CreateMdev(strings.ToUpper(vm), "nvidia-1147"); err != nil {
		t.Errorf("an existing device is created again: %v", err)
	}
	if err := d.RemoveMdevsExcept(vm, "nvidia-1147"); err != nil || asked(first) != "" || asked(second) != "1" || asked(theirs) != "" {
		t.Errorf("removed were %q, %q and %q, %v", asked(first), asked(second), asked(theirs), err)
	}
	if err := d.RemoveMdevsExcept(vm); err != nil || asked(first) != "1" || asked(theirs) != "" {
		t.Errorf("with the VM gone %q, %q and %q, %v", asked(first), asked(second), asked(theirs), err)
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(second, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.RemoveMdevsExcept(vm); err == nil || !strings.Contains(err.Error(), MdevID(vm, "nvidia-1148")) {
		t.Errorf("a device that cannot be removed: %v", err)
	}
}

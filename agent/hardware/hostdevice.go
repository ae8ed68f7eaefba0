package hardware

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

const (
	usbDevicesDir  = "sys/bus/usb/devices"
	mdevParentsDir = "sys/class/mdev_bus"
	mdevDevicesDir = "sys/bus/mdev/devices"
)

var (
	// ErrUSBPortEmpty means that no device for a guest is plugged into the USB port.
	ErrUSBPortEmpty = errors.New("nothing is plugged in")
	// ErrNoMdevFree means that no device of the host can create another mediated device of a type.
	ErrNoMdevFree = errors.New("no more can be created")

	usbPortPattern  = regexp.MustCompile(`^[0-9]{1,3}-[0-9]{1,3}(\.[0-9]{1,3}){0,5}$`)
	mdevTypePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)
	hubPortPattern  = regexp.MustCompile(`^(usb([0-9]+)|[0-9]+-[0-9.]+)-port([0-9]+)$`)
)

// HostDevices manages the host devices of guests on the machine whose /sys is below Root; empty: this machine.
type HostDevices struct{ Root string }

func (d HostDevices) tree() hostTree { return hostTree(cmp.Or(d.Root, "/")) }

// USBDevice is the kernel's current address of a device, and the device's IDs of four hexadecimal digits each. A
// replugged device gets another number.
type USBDevice struct {
	Bus, Number     uint
	Vendor, Product string
}

// USBAt returns the device plugged into a port such as "1-2.3", or ErrUSBPortEmpty.
func (d HostDevices) USBAt(port string) (USBDevice, error) {
	if !usbPortPattern.MatchString(port) {
		return USBDevice{}, fmt.Errorf("%q is not a USB port", port)
	}
	t := d.tree()
	out := USBDevice{
		Bus: uint(t.readNumber(usbDevicesDir, port, "busnum")), Number: uint(t.readNumber(usbDevicesDir, port, "devnum")),
		Vendor: t.readLine(usbDevicesDir, port, "idVendor"), Product: t.readLine(usbDevicesDir, port, "idProduct"),
	}
	if out.Number == 0 || out.Vendor == "" || out.Product == "" || t.readLine(usbDevicesDir, port, "bDeviceClass") == "09" {
		return USBDevice{}, ErrUSBPortEmpty
	}
	return out, nil
}

// usbPorts lists USB ports for guests: ports with a device, and free ports of hubs.
func (t hostTree) usbPorts() (out []fleet.HostDevice) {
	ports := map[string]bool{}
	for _, at := range t.listDir(usbDevicesDir) {
		if usbPortPattern.MatchString(at) {
			ports[at] = true
		}
		if !strings.Contains(at, ":") {
			continue
		}
		for _, name := range t.listDir(usbDevicesDir, at) { // ports of a hub's interface
			m := hubPortPattern.FindStringSubmatch(name)
			if m == nil || t.readLine(usbDevicesDir, at, name, "connect_type") == "not used" {
				continue
			}
			port := m[1] + "." + m[3]
			if m[2] != "" {
				port = m[2] + "-" + m[3]
			}
			ports[port] = usbPortPattern.MatchString(port)
		}
	}
	numbers := func(port string) (out []int) {
		for part := range strings.FieldsFuncSeq(port, func(r rune) bool { return r == '-' || r == '.' }) {
			n, _ := strconv.Atoi(part) // at most three digits
			out = append(out, n)
		}
		return out
	}
	for _, port := range slices.SortedFunc(maps.Keys(ports), func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }) {
		if !ports[port] || t.readLine(usbDevicesDir, port, "bDeviceClass") == "09" {
			continue
		}
		out = append(out, fleet.HostDevice{Device: "usb-port/" + port, Name: shortenDeviceName(t.usbName(port)), Empty: t.usbName(port) == ""})
	}
	return out
}

// usbName returns the name that the device reports; empty: none.
func (t hostTree) usbName(at string) string {
	vendor, product := t.readLine(usbDevicesDir, at, "idVendor"), t.readLine(usbDevicesDir, at, "idProduct")
	if vendor == "" || product == "" {
		return ""
	}
	return cmp.Or(strings.TrimSpace(t.readLine(usbDevicesDir, at, "manufacturer")+" "+t.readLine(usbDevicesDir, at, "product")), "USB "+vendor+":"+product)
}

// mdevTypes lists the distinct mediated device types that the host's devices offer through vfio-pci.
func (t hostTree) mdevTypes() (out []fleet.HostDevice) {
	made := map[string]int{}
	for _, id := range t.listDir(mdevDevicesDir) {
		made[t.linkTargetName(mdevDevicesDir, id, "mdev_type")]++
	}
	for _, parent := range t.listDir(mdevParentsDir) {
		for _, kind := range t.listDir(mdevParentsDir, parent, "mdev_supported_types") {
			at := []string{mdevParentsDir, parent, "mdev_supported_types", kind}
			of := func(file string) string { return t.readLine(append(slices.Clip(at), file)...) }
			if api := of("device_api"); !mdevTypePattern.MatchString(kind) || api != "" && api != "vfio-pci" {
				continue
			}
			free, _ := strconv.Atoi(of("available_instances")) // the kernel writes a number there
			free = min(max(free, 0), fleet.MaxReportedDevices)
			i := slices.IndexFunc(out, func(d fleet.HostDevice) bool { return d.Device == "mdev/"+kind })
			if i < 0 {
				i = len(out)
				out = append(out, fleet.HostDevice{Device: "mdev/" + kind, Name: shortenDeviceName(cmp.Or(of("name"), kind)), Max: made[kind]})
			}
			out[i].Free, out[i].Max, out[i].Parents = out[i].Free+free, out[i].Max+free, append(out[i].Parents, parent)
		}
	}
	return out
}

// MdevID returns the UUID of the VM's mediated device of that type. The UUID never changes.
func MdevID(vm, kind string) string {
	sum := sha256.Sum256([]byte("quantix mdev " + strings.ToLower(vm) + " " + kind))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // RFC 9562: a custom version and variant
	text := hex.EncodeToString(sum[:16])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// CreateMdev creates the VM's mediated device of that type, on the first device of the machine that can create one. It
// does nothing if the mediated device exists.
func (d HostDevices) CreateMdev(vm, kind string) error {
	if !mdevTypePattern.MatchString(kind) {
		return fmt.Errorf("%q is not a type of mediated devices", kind)
	}
	t, id := d.tree(), MdevID(vm, kind)
	if t.exists(mdevDevicesDir, id) {
		return nil
	}
	failed := ErrNoMdevFree
	for _, parent := range t.listDir(mdevParentsDir) {
		if t.readNumber(mdevParentsDir, parent, "mdev_supported_types", kind, "available_instances") < 1 {
			continue
		}
		err := writeKernelFile(t.path(mdevParentsDir, parent, "mdev_supported_types", kind, "create"), id)
		if err == nil || t.exists(mdevDevicesDir, id) {
			return nil
		}
		failed = fmt.Errorf("%s: %w", parent, err)
	}
	return failed
}

// RemoveMdevsExcept removes the VM's mediated devices except those of the given types.
func (d HostDevices) RemoveMdevsExcept(vm string, kinds ...string) error {
	t := d.tree()
	var failed []error
	for _, id := range t.listDir(mdevDevicesDir) {
		kind := t.linkTargetName(mdevDevicesDir, id, "mdev_type")
		if id != MdevID(vm, kind) || slices.Contains(kinds, kind) {
			continue
		}
		if err := writeKernelFile(t.path(mdevDevicesDir, id, "remove"), "1"); err != nil && !errors.Is(err, fs.ErrNotExist) && t.exists(mdevDevicesDir, id) {
			failed = append(failed, fmt.Errorf("remove the mediated device %s: %w", id, err))
		}
	}
	return errors.Join(failed...)
}

// writeKernelFile writes a value to an existing kernel file. It never creates a file.
func writeKernelFile(path, word string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(word)
	return errors.Join(err, f.Close())
}

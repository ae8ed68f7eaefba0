package domxml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// incomingForbidden are elements that no definition of another host may have, because they give a guest or QEMU access to
// this host that the VM's spec does not name.
var incomingForbidden = map[string]string{
	"hostdev": "a host device", "filesystem": "a shared folder", "commandline": "options of QEMU", "override": "options of QEMU",
	"kernel": "a kernel file", "initrd": "a kernel file", "dtb": "a device tree file", "shmem": "shared memory",
	"secret": "a secret", "auth": "a secret", "baselabel": "a security label",
}

// incomingTypes are the values that the attribute type of an element may have. Others name resources of this host, or
// give up QEMU's confinement.
var incomingTypes = map[string][]string{
	"disk": {"file", "block"}, "mirror": {"file", "block"}, "interface": {"network", "bridge"}, "seclabel": {"dynamic"},
	"serial": {"pty"}, "console": {"pty"}, "parallel": {"pty"}, "channel": {"unix", "spicevmc", "pty"}, "redirdev": {"spicevmc"}, "smartcard": {"spicevmc"},
}

// incomingPaths are the files that an element may name besides the VM's files, by element. A source is listed with its
// parent.
var incomingPaths = map[string][]string{
	"partition": {"/machine"}, "emulator": {"/usr/bin/qemu-", "/usr/bin/kvm", "/usr/libexec/qemu-kvm"}, "loader": {"/usr/share/"},
	"nvram": {"/usr/share/"}, "backend": {"/dev/urandom", "/dev/random", "/dev/hwrng"},
	"console": {"/dev/pts/"}, "serial/source": {"/dev/pts/"}, "console/source": {"/dev/pts/"}, "parallel/source": {"/dev/pts/"},
	"channel/source": {"/var/lib/libvirt/qemu/channel/", "/run/libvirt/qemu/channel/", "/dev/pts/"}, "graphics": {"/var/lib/libvirt/qemu/", "/run/libvirt/qemu/"},
	"listen": {"/var/lib/libvirt/qemu/", "/run/libvirt/qemu/"}, "driver": {"/dev/net/tun", "/dev/vhost-net"},
}

// Incoming is what a definition of another host may name on this host.
type Incoming struct {
	VM    fleet.VM
	Dirs  []string          // directories of the VM's media, backing files and first-boot data
	Disks map[string]string // formats of the VM's disks, by file or device
}

// incomingDefinition is the check of a definition that another host sends.
type incomingDefinition struct {
	Incoming
	name, uuid string
	path       []string // open elements, from the root

	medium       bool   // the open disk is a drive
	disk, format string // file and format of the open disk
}

// CheckDefinition checks the definition of a running VM that another host sends, and returns the domain's name. Another
// host's bytes must not give a guest or QEMU more of this host than the VM's spec does: the definition must be that of
// the VM, and may name only the VM's networks and disks, files below Dirs, and files that libvirt makes for every guest.
func (in Incoming) CheckDefinition(text string) (name string, err error) {
	d := incomingDefinition{Incoming: in}
	from := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := from.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = d.checkToken(from, token)
		}
		if _, refused := errors.AsType[*fleet.Error](err); refused {
			return "", err
		}
		if err != nil {
			return "", fmt.Errorf("the source host sends an invalid definition: %w", err)
		}
	}
	if d.name == "" || d.uuid != string(d.VM.ID) {
		return "", errors.New("the source host sends the definition of another VM")
	}
	if uuidForm.MatchString(d.name) && d.name != d.uuid {
		return "", errors.New("the source host sends a definition with the name of another VM's files")
	}
	return d.name, nil
}

// CheckCookie checks the persistent definition in libvirt's migration cookie of another host like CheckDefinition. A
// cookie may have none.
func (in Incoming) CheckCookie(cookie []byte) error {
	from := xml.NewDecoder(bytes.NewReader(bytes.TrimRight(cookie, "\x00")))
	for {
		at := from.InputOffset()
		token, err := from.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the source host sends an invalid cookie of libvirt: %w", err)
		}
		if _, ok := token.(xml.Directive); ok {
			return errDirective
		}
		if t, ok := token.(xml.StartElement); !ok || t.Name.Local != "domain" {
			continue
		}
		if err := from.Skip(); err != nil {
			return fmt.Errorf("the source host sends an invalid cookie of libvirt: %w", err)
		}
		if _, err := in.CheckDefinition(string(cookie[at:from.InputOffset()])); err != nil {
			return err
		}
	}
}

var errDirective = fleet.Errorf(fleet.Conflict, "The definition on the source host has a document type or another directive.")

// uuidForm is the form of the names that Quantix gives to files of a VM, so no domain may have such a name.
var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$`)

func (d *incomingDefinition) checkToken(in *xml.Decoder, token xml.Token) error {
	switch t := token.(type) {
	case xml.Directive: // libxml2 takes default values of attributes from a DOCTYPE
		return errDirective
	case xml.StartElement:
		if len(d.path) == 1 && t.Name.Local == "metadata" {
			return in.Skip()
		}
		d.path = append(d.path, t.Name.Local)
		return d.checkElement(t)
	case xml.EndElement:
		d.path = d.path[:len(d.path)-1]
		if t.Name.Local == "disk" && len(d.path) > 0 && d.path[len(d.path)-1] == "devices" {
			return d.checkFormat()
		}
	case xml.CharData:
		value := strings.TrimSpace(string(t))
		if len(d.path) == 2 && d.path[1] == "name" && d.name == "" {
			d.name = value
		}
		if len(d.path) == 2 && d.path[1] == "uuid" && d.uuid == "" {
			d.uuid = value
		}
		if len(d.path) > 0 && slices.Contains(fileElements, d.path[len(d.path)-1]) && !isAbsolute(value) {
			return relativePathError(d.path[len(d.path)-1], value)
		}
		return d.checkValue(value)
	}
	return nil
}

func (d *incomingDefinition) checkElement(t xml.StartElement) error {
	element, attrs := t.Name.Local, map[string]string{}
	for _, a := range t.Attr {
		attrs[a.Name.Local] = a.Value
	}
	if why, ok := incomingForbidden[element]; ok {
		return fleet.Errorf(fleet.Conflict, "The definition on the source host has %s (element %s), which Quantix does not migrate.", why, element)
	}
	if types, ok := incomingTypes[element]; ok && d.isDevice(element) && !slices.Contains(types, attrs["type"]) {
		return fleet.Errorf(fleet.Conflict, "The definition on the source host has the element %s of the type %q, which Quantix does not migrate.", element, attrs["type"])
	}
	if element == "source" && d.parent() == "interface" && !d.hasNIC(attrs) {
		return fleet.Errorf(fleet.Conflict, "The definition on the source host has a NIC in the network %q, which is none of the VM's networks.", attrs["network"]+attrs["bridge"])
	}
	if element == "disk" && d.parent() == "devices" {
		d.medium, d.disk, d.format = attrs["device"] == "cdrom" || attrs["device"] == "floppy", "", ""
	}
	if element == "driver" && d.parent() == "disk" {
		d.format = attrs["type"]
	}
	for name, value := range attrs {
		if isFile := slices.Contains(fileAttributes, name) || name == "dev" && element == "source" && d.parent() != "interface"; isFile && !isAbsolute(value) {
			return relativePathError(element, value)
		}
		if err := d.checkValue(value); err != nil {
			return err
		}
	}
	return nil
}

// fileAttributes are attributes with a path, of any element. fileElements are elements with a path as their text. QEMU
// would open a relative path below its own directory.
var (
	fileAttributes = []string{"file", "path", "dir", "socket", "template"}
	fileElements   = []string{"emulator", "loader", "nvram"}
)

func isAbsolute(file string) bool { return file == "" || strings.HasPrefix(file, "/") }

func relativePathError(element, file string) error {
	return fleet.Errorf(fleet.Conflict, "The definition on the source host has the relative path %q (element %s), which Quantix does not migrate.", file, element)
}

// isDevice reports whether the open element has the place of a device or a security label in a definition. Names such as
// disk and console occur elsewhere, too.
func (d *incomingDefinition) isDevice(element string) bool {
	return d.parent() == "devices" || element == "seclabel" || element == "mirror"
}

// parent returns the element that contains the open element; empty: none.
func (d *incomingDefinition) parent() string {
	if len(d.path) < 2 {
		return ""
	}
	return d.path[len(d.path)-2]
}

// hasNIC reports whether the VM has a NIC in the network or on the bridge.
func (d *incomingDefinition) hasNIC(source map[string]string) bool {
	if source["dev"] != "" {
		return false
	}
	return slices.ContainsFunc(d.VM.Spec.NICs, func(n fleet.NIC) bool {
		if source["network"] != "" {
			return n.Network == source["network"]
		}
		return n.Bridge != "" && n.Bridge == source["bridge"]
	})
}

// checkFormat refuses a disk that is read in another format than the VM's spec has. A guest can write the header of another
// format into a raw disk, and the header can name any file.
func (d *incomingDefinition) checkFormat() error {
	if d.medium || d.disk == "" || d.format == d.Disks[d.disk] {
		return nil
	}
	return fleet.Errorf(fleet.Conflict, "The definition on the source host has the disk %s with the format %q, not %s.", d.disk, d.format, d.Disks[d.disk])
}

// ownsVariables reports whether the file of UEFI variables belongs to the VM. libvirt names it after the domain, and
// Quantix after the VM's ID.
func (d *incomingDefinition) ownsVariables(file string) bool {
	return slices.Contains([]string{string(d.VM.ID) + PlainVarsSuffix, string(d.VM.ID) + SecureVarsSuffix, d.name + PlainVarsSuffix}, file)
}

// checkValue checks an attribute or a text of the open element.
func (d *incomingDefinition) checkValue(value string) error {
	if !strings.HasPrefix(value, "/") {
		return nil
	}
	element := d.path[len(d.path)-1]
	allowed := incomingPaths[element]
	if element == "source" {
		allowed = incomingPaths[d.parent()+"/source"]
	}
	clean := filepath.Clean(value)
	if element == "nvram" && filepath.Dir(clean) == NVRAMDir && d.ownsVariables(filepath.Base(clean)) {
		return nil
	}
	for _, prefix := range allowed {
		if clean == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(clean, prefix) {
			return nil
		}
	}
	if element == "source" && d.parent() == "disk" && !d.medium {
		if _, ok := d.Disks[clean]; ok {
			d.disk = clean
			return nil
		}
		return fleet.Errorf(fleet.Conflict, "The definition on the source host has the disk %s, which is none of the VM's disks on this host.", value)
	}
	for _, dir := range d.Dirs {
		if strings.HasPrefix(clean, filepath.Clean(dir)+"/") {
			return nil
		}
	}
	return fleet.Errorf(fleet.Conflict, "The definition on the source host names %s (element %s), which is in none of the VM's pools.", value, element)
}

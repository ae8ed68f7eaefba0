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
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// incomingForbidden are elements that no definition of another host may have, because they give a guest or QEMU access to
// this host that the VM's spec does not name.
var incomingForbidden = map[string]string{
	"hostdev": "a host device", "filesystem": "a shared folder", "commandline": "options of QEMU", "override": "options of QEMU",
	"kernel": "a kernel file", "initrd": "a kernel file", "dtb": "a device tree file", "shmem": "shared memory",
	"secret": "a secret", "auth": "a secret", "encryption": "a secret", "baselabel": "a security label", "dataStore": "a data file",
}

// incomingTypes are the values that the attribute type of an element may have. Others name resources of this host, or
// give up QEMU's confinement.
var incomingTypes = map[string][]string{
	"disk": {"file", "block"}, "mirror": {"file", "block"}, "interface": {"network", "bridge"}, "seclabel": {"dynamic"},
	"serial": {"pty"}, "console": {"pty"}, "parallel": {"pty"}, "channel": {"unix", "spicevmc", "pty"}, "redirdev": {"spicevmc"}, "smartcard": {"spicevmc"},
}

// incomingBackends are the backends that a device may have, by device, and the attribute that names the backend. Others are
// devices or services of this host.
var incomingBackends = map[string]struct {
	attribute string
	allowed   []string
}{"tpm": {"type", []string{"emulator"}}, "rng": {"model", []string{"random", "builtin"}}}

// incomingOnce are elements that may occur once in their parent. Of two elements, some readers of XML use the first, and
// others the last.
var incomingOnce = map[string][]string{
	"domain": {"name", "uuid"}, "disk": {"source", "driver", "backingStore"}, "backingStore": {"format", "source", "backingStore"},
	"interface": {"source", "vlan"},
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
	Disks map[string]string // formats of the VM's disks, by file or device
	Media []string          // files of the VM's media, which its drives read
	Seed  string            // file of the VM's first-boot data; empty: none
	Dirs  []string          // directories of the VM's pools, which have the backing files
	// Backing returns the backing files of a disk according to the headers on this host, and whether each is raw.
	Backing func(disk string) map[string]bool
	// Network returns the definition of a network of this host.
	Network func(name string) (*libvirtxml.Network, error)
}

// incomingDefinition is the check of a definition that another host sends.
type incomingDefinition struct {
	Incoming
	name, uuid string
	path       []string            // open elements, from the root
	children   []map[string]string // attribute type of the children of each open element, by child

	drive        string // kind of the open disk if it is a drive: cdrom or floppy
	readOnly     bool   // the open disk is read-only
	disk, format string // file and format of the open disk

	nic     map[string]string       // source of the open interface
	vlan    *libvirtxml.NetworkVLAN // VLANs of the open interface; nil: none
	nicType string                  // type of the open interface
}

// CheckDefinition checks the definition of a running VM that another host sends, and returns the domain's name. Another
// host's bytes must not give a guest or QEMU more of this host than the VM's spec does: the definition must be that of
// the VM, and may name only the VM's networks, disks, media and first-boot data, the disks' backing files, and files that
// libvirt makes for every guest.
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
	x, err := ParseDefinition(text, false)
	if err != nil {
		return "", fmt.Errorf("the source host sends an invalid definition: %w", err)
	}
	if d.name == "" || d.uuid != string(d.VM.ID) || x.Name != d.name || x.UUID != d.uuid {
		return "", errors.New("the source host sends the definition of another VM")
	}
	if uuidForm.MatchString(d.name) && d.name != d.uuid {
		return "", fleet.Errorf(fleet.Conflict, "The VM's definition has the name %s (element name). Quantix gives names of this form to files of VMs. Rename the domain with virsh.", d.name)
	}
	return d.name, nil
}

// RefusalReason returns the sentence for people about a definition that CheckDefinition refuses; empty: it is not refused.
func RefusalReason(err error) string {
	refused, ok := errors.AsType[*fleet.Error](err)
	switch {
	case err == nil:
		return ""
	case ok:
		return refused.Error()
	}
	return "Quantix cannot check the VM's definition, so the VM stays on this host."
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

var errDirective = fleet.Errorf(fleet.Conflict, "The VM's definition has a document type or another directive.")

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
		d.path, d.children = append(d.path, t.Name.Local), append(d.children, map[string]string{})
		return d.checkElement(t)
	case xml.EndElement:
		isDevice := d.parent() == "devices"
		d.path, d.children = d.path[:len(d.path)-1], d.children[:len(d.children)-1]
		switch {
		case isDevice && t.Name.Local == "disk":
			return d.checkFormat()
		case isDevice && t.Name.Local == "interface":
			return d.checkNIC()
		}
	case xml.CharData:
		value := strings.TrimSpace(string(t))
		if len(d.path) == 2 && d.path[1] == "name" {
			d.name += value
		}
		if len(d.path) == 2 && d.path[1] == "uuid" {
			d.uuid += value
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
		return fleet.Errorf(fleet.Conflict, "The VM's definition has %s (element %s), which Quantix does not migrate.", why, element)
	}
	if types, ok := incomingTypes[element]; ok && d.isDevice(element) && !slices.Contains(types, attrs["type"]) {
		return fleet.Errorf(fleet.Conflict, "The VM's definition has the element %s of the type %q, which Quantix does not migrate.", element, attrs["type"])
	}
	if b, ok := incomingBackends[d.parent()]; ok && element == "backend" && !slices.Contains(b.allowed, attrs[b.attribute]) {
		return fleet.Errorf(fleet.Conflict, "The VM's definition has a %s with the backend %q, which Quantix does not migrate.", d.parent(), attrs[b.attribute])
	}
	if element == "backingStore" && !slices.Contains([]string{"", "file", "block"}, attrs["type"]) {
		return fleet.Errorf(fleet.Conflict, "The VM's definition has the element backingStore of the type %q, which Quantix does not migrate.", attrs["type"])
	}
	if err := d.checkOnce(element, attrs["type"]); err != nil {
		return err
	}
	d.readDevice(element, attrs)
	if element == "source" && d.parent() == "interface" && !d.hasNIC(attrs) {
		return fleet.Errorf(fleet.Conflict, "The VM's definition has a NIC in the network %q, which is none of the VM's networks.", attrs["network"]+attrs["bridge"])
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

// checkOnce refuses a second element where one may be, and records the element for its parent.
func (d *incomingDefinition) checkOnce(element, kind string) error {
	if len(d.path) < 2 {
		return nil
	}
	siblings := d.children[len(d.children)-2]
	_, again := siblings[element]
	_, late := siblings["source"] // the format of a backing file is checked with its source
	if slices.Contains(incomingOnce[d.parent()], element) && (again || late && element == "format") {
		return fleet.Errorf(fleet.Conflict, "The VM's definition has a second or misplaced element %s in %s.", element, d.parent())
	}
	siblings[element] = kind
	return nil
}

// readDevice reads what the checks at the end of a device need.
func (d *incomingDefinition) readDevice(element string, attrs map[string]string) {
	switch d.parent() + "/" + element {
	case "devices/disk":
		d.drive, d.readOnly, d.disk, d.format = "", false, "", ""
		if attrs["device"] == "cdrom" || attrs["device"] == "floppy" {
			d.drive = attrs["device"]
		}
	case "disk/driver":
		d.format = attrs["type"]
	case "disk/readonly":
		d.readOnly = true
	case "devices/interface":
		d.nicType, d.nic, d.vlan = attrs["type"], nil, nil
	case "interface/source":
		d.nic = attrs
	case "interface/vlan":
		d.vlan = &libvirtxml.NetworkVLAN{Trunk: attrs["trunk"]}
	case "vlan/tag":
		if id, err := strconv.ParseUint(attrs["id"], 0, 16); err == nil && d.vlan != nil {
			d.vlan.Tags = append(d.vlan.Tags, libvirtxml.NetworkVLANTag{ID: uint(id), NativeMode: attrs["nativeMode"]})
		}
	}
}

// fileAttributes are attributes with a path, of any element. fileElements are elements with a path as their text. QEMU
// would open a relative path below its own directory.
var (
	fileAttributes = []string{"file", "path", "dir", "socket", "template"}
	fileElements   = []string{"emulator", "loader", "nvram"}
)

func isAbsolute(file string) bool { return file == "" || strings.HasPrefix(file, "/") }

func relativePathError(element, file string) error {
	return fleet.Errorf(fleet.Conflict, "The VM's definition has the relative path %q (element %s), which Quantix does not migrate.", file, element)
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
			return n.Network == source["network"] && n.PortGroup == source["portgroup"]
		}
		return n.Bridge != "" && n.Bridge == source["bridge"]
	})
}

// checkNIC refuses a bridge or VLANs that this host would not choose for the NIC. A running guest's definition has the
// bridge of its network and the VLANs of its port group, and libvirt prefers both to those of the network.
func (d *incomingDefinition) checkNIC() error {
	name := d.nic["network"]
	if d.vlan == nil && (d.nicType == "network" || name == "") {
		return nil
	}
	var bridge string
	var vlan *libvirtxml.NetworkVLAN
	if name != "" {
		x, err := d.Network(name)
		if err != nil {
			return fleet.Errorf(fleet.Conflict, "This host cannot read the network %q of the VM's definition: %v", name, err)
		}
		if x.Bridge != nil {
			bridge = x.Bridge.Name
		}
		vlan = vlanOfNIC(x, d.nic["portgroup"])
	}
	if name != "" && d.nicType != "network" && d.nic["bridge"] != bridge {
		return fleet.Errorf(fleet.Conflict, "The VM's definition has a NIC on the bridge %q, which is not that of the network %s.", d.nic["bridge"], name)
	}
	if d.vlan != nil && (vlan == nil || isTrunk(d.vlan) != isTrunk(vlan) || !slices.Equal(d.vlan.Tags, vlan.Tags)) {
		return fleet.Errorf(fleet.Conflict, "The VM's definition has VLANs (element vlan) that are not those of the NIC's port group.")
	}
	return nil
}

// vlanOfNIC returns the VLANs that libvirt gives to a NIC of the network's port group; nil: none.
func vlanOfNIC(x *libvirtxml.Network, group string) *libvirtxml.NetworkVLAN {
	for _, g := range x.PortGroups {
		if is := g.Name == group || group == "" && g.Default == "yes"; is && g.VLAN != nil {
			return g.VLAN
		}
	}
	return x.VLAN
}

// isTrunk reports whether the NIC gets several VLANs. libvirt adds the attribute if there are several tags.
func isTrunk(v *libvirtxml.NetworkVLAN) bool { return v.Trunk == "yes" || len(v.Tags) > 1 }

// checkFormat refuses a disk that is read in another format than the VM's spec has. A guest can write the header of another
// format into a raw disk, and the header can name any file. A user can upload such a medium.
func (d *incomingDefinition) checkFormat() error {
	format, isDisk := d.Disks[d.disk]
	switch {
	case d.disk == "":
		return nil
	case !isDisk && d.format != "" && d.format != fleet.Raw:
		return fleet.Errorf(fleet.Conflict, "The VM's definition has the medium %s with the format %q, not raw.", d.disk, d.format)
	case !isDisk && d.drive == "floppy" && !d.readOnly:
		return fleet.Errorf(fleet.Conflict, "The VM's definition has the medium %s in a floppy drive that is not read-only.", d.disk)
	case !isDisk || d.format == format:
		return nil
	}
	return fleet.Errorf(fleet.Conflict, "The VM's definition has the disk %s with the format %q, not %s.", d.disk, d.format, d.Disks[d.disk])
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
	switch {
	case element == "source" && d.parent() == "disk":
		return d.checkSource(clean)
	case element == "source" && d.parent() == "backingStore":
		return d.checkBackingFile(clean)
	case element == "entry" && d.Seed != "" && clean == d.Seed:
		return nil
	case element == "source" && d.parent() == "mirror":
		if _, ok := d.Disks[clean]; ok {
			return nil
		}
	}
	return fleet.Errorf(fleet.Conflict, "The VM's definition names %s (element %s), which is no file of the VM.", value, element)
}

// checkSource checks the file or device of the open disk. A file of a pool can belong to another VM, so only the VM's own
// files count.
func (d *incomingDefinition) checkSource(file string) error {
	_, isDisk := d.Disks[file]
	switch {
	case d.disk != "" && d.disk != file: // two attributes of one source
	case isDisk, d.drive != "" && (slices.Contains(d.Media, file) || d.drive == "cdrom" && file == d.Seed):
		d.disk = file
		return nil
	case d.drive != "":
		return fleet.Errorf(fleet.Conflict, "The VM's definition has the medium %s, which is none of the VM's media on this host.", file)
	}
	return fleet.Errorf(fleet.Conflict, "The VM's definition has the disk %s, which is none of the VM's disks on this host.", file)
}

// checkBackingFile checks a backing file of the open disk. The header on this host names it, and it is in one of the
// VM's pools. libvirt must not read another format than raw from a raw file, whose content a guest may have written.
func (d *incomingDefinition) checkBackingFile(file string) error {
	format := d.children[len(d.children)-2]["format"]
	if _, ok := d.Disks[d.disk]; ok && d.Backing != nil {
		raw, named := d.Backing(d.disk)[file]
		inPool := slices.ContainsFunc(d.Dirs, func(dir string) bool { return filepath.Dir(file) == filepath.Clean(dir) })
		if named && inPool && (!raw || format == fleet.Raw) {
			return nil
		}
	}
	return fleet.Errorf(fleet.Conflict, "The VM's definition has the backing file %s (element backingStore) with the format %q, which the disk does not have on this host.", file, format)
}

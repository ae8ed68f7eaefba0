package fleet

import (
	"fmt"
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of user input.
const (
	MinMemoryMiB   = 128
	MaxMemoryMiB   = 16 << 20 // 16 TiB
	MaxCPUs        = 768
	MaxDisks       = 24
	MaxNICs        = 16
	MaxLabels      = 64
	MaxDiskBytes   = 64 << 40 // 64 TiB
	MaxDescription = 4096     // bytes

	maxName = 63 // length of an object's name
)

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)
	labelForm = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	// volumeForm matches names of new volumes only; IsVolumeName also accepts names of existing volumes
	volumeForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)
	deviceForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
	userForm     = regexp.MustCompile(`^[a-z0-9]([a-z0-9._@-]{0,62}[a-z0-9])?$`)
	hostAddrForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.:-]{0,252})$`)
)

// ProposeCloneNames proposes names for a clone of the VM, preferred ones first: web-clone, web-clone-2 and so on.
func ProposeCloneNames(vm string) []string {
	out := make([]string, 100)
	for i := range out {
		ending := "-clone"
		if i > 0 {
			ending += "-" + strconv.Itoa(i+1)
		}
		out[i] = vm[:min(len(vm), maxName-len(ending))] + ending
	}
	return out
}

// CheckName adds an error at field if name is not an object name: 1–63 of a–z, 0–9, "-" and ".", alphanumeric at both
// ends.
func CheckName(c *Checks, field, name string) {
	const rules = "A name has 1–63 lower-case letters, digits, dots and hyphens, and starts and ends with a letter or digit."
	switch {
	case name == "":
		c.Add(field, "Enter a name. "+rules)
	case !nameForm.MatchString(name):
		c.Add(field, rules)
	}
}

// CheckUserName adds an error at field if name is not a user name.
func CheckUserName(c *Checks, field, name string) {
	if !userForm.MatchString(name) {
		c.Add(field, "A user name has 1–64 lower-case letters, digits and . _ @ -, and starts and ends with a letter or digit.")
	}
}

// CheckLabels adds an error for each invalid label. Keys match ^[a-z][a-z0-9-]*$ with up to 63 bytes. Values have up to
// 255 bytes of visible characters. Too many labels are a single error.
func CheckLabels(c *Checks, field string, labels map[string]string) {
	if len(labels) > MaxLabels {
		c.Add(field, "An object has at most %d labels.", MaxLabels)
		return
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		switch v := labels[k]; {
		case len(k) > 63 || !labelForm.MatchString(k):
			c.Add(field, "Label key %q: use lower-case letters, digits and hyphens, starting with a letter, 63 at most.", k[:min(len(k), 80)])
		case len(v) > 255 || !IsPlainText(v):
			c.Add(field, "The value of label %q must be one line of at most 255 bytes.", k)
		case strings.ContainsFunc(v, isInvisibleRune):
			c.Add(field, "The value of label %q contains %s", k, invisibleCharacters)
		}
	}
}

// CheckDescription adds an error if the text is too long or not UTF-8, or has characters that mislead a reader or are
// not allowed in a domain's XML.
func CheckDescription(c *Checks, field, text string) {
	switch {
	case len(text) > MaxDescription || !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		c.Add(field, "A description is text of at most %d bytes.", MaxDescription)
	case strings.ContainsFunc(text, isMisleadingRune):
		c.Add(field, "The description contains %s", invisibleCharacters)
	}
}

const invisibleCharacters = "invisible characters, such as those that change the direction of text. Type the text again."

// isInvisibleRune reports whether the character cannot be seen in a line of text.
func isInvisibleRune(r rune) bool { return !unicode.IsGraphic(r) }

// isMisleadingRune reports whether the character is not allowed in multi-line text: control characters, noncharacters, and
// characters that change the text direction.
func isMisleadingRune(r rune) bool {
	switch {
	case r == '\n' || r == '\r' || r == '\t':
		return false
	case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Noncharacter_Code_Point, r)
}

// IsPlainText reports whether the text is valid UTF-8 on one line, without control characters.
func IsPlainText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Check adds an error for each invalid field, with JSON paths below prefix ("spec").
func (s VMSpec) Check(c *Checks, prefix string) {
	if s.CPUs < 1 || s.CPUs > MaxCPUs {
		c.Add(prefix+".cpus", "Enter 1 to %d vCPUs.", MaxCPUs)
	}
	if s.MemoryMiB < MinMemoryMiB || s.MemoryMiB > MaxMemoryMiB {
		c.Add(prefix+".memoryMiB", "Enter at least %d MiB of memory, and at most %d TiB.", MinMemoryMiB, MaxMemoryMiB>>20)
	}
	if s.Firmware != BIOS && s.Firmware != UEFI {
		c.Add(prefix+".firmware", "The firmware must be \"bios\" or \"uefi\".")
	}
	if s.Power != Running && s.Power != Stopped && s.Power != Paused {
		c.Add(prefix+".power", "The power state must be \"running\", \"paused\" or \"stopped\".")
	}
	if len(s.Disks) > MaxDisks {
		c.Add(prefix+".disks", "A VM has at most %d disks.", MaxDisks)
	}
	if len(s.NICs) > MaxNICs {
		c.Add(prefix+".nics", "A VM has at most %d NICs.", MaxNICs)
	}
	for i, d := range s.Disks[:min(len(s.Disks), MaxDisks)] {
		d.check(c, fmt.Sprintf("%s.disks[%d]", prefix, i))
		d.checkFields(c, fmt.Sprintf("%s.disks[%d]", prefix, i))
	}
	for i, n := range s.NICs[:min(len(s.NICs), MaxNICs)] {
		n.check(c, fmt.Sprintf("%s.nics[%d]", prefix, i))
		n.checkFields(c, fmt.Sprintf("%s.nics[%d]", prefix, i))
	}
	if s.ISO != nil {
		s.ISO.check(c, prefix+".iso")
	}
	s.checkOptionalFields(c, prefix)
}

func (d Disk) check(c *Checks, at string) {
	if d.PoolID == "" {
		c.Add(at+".poolId", "Choose the pool that holds the disk.")
	}
	if d.Existing {
		d.checkExisting(c, at)
		return
	}
	if d.Image == nil && d.ImageID == "" && d.SizeBytes <= 0 || d.SizeBytes < 0 {
		c.Add(at+".sizeBytes", "A disk needs a size above 0.")
	}
	if d.SizeBytes > MaxDiskBytes {
		c.Add(at+".sizeBytes", "A disk has at most %d TiB.", MaxDiskBytes>>40)
	}
	if d.Volume != "" && !IsVolumeName(d.Volume) {
		c.Add(at+".volume", invalidVolumeName)
	}
	d.checkImage(c, at)
	switch {
	case d.Image == nil:
	case *d.Image == Volref{}:
		c.Add(at+".image.volume", "Choose an image.")
	default:
		d.Image.check(c, at+".image")
	}
}

// checkExisting is check for a disk on an existing volume.
func (d Disk) checkExisting(c *Checks, at string) {
	if !IsVolumeName(d.Volume) {
		c.Add(at+".volume", "Choose the existing volume of the disk.")
	}
	if d.Image != nil || d.ImageID != "" {
		c.Add(at+".image", "A disk on an existing volume cannot have an image.")
	}
	if d.SizeBytes != 0 {
		c.Add(at+".sizeBytes", "A disk on an existing volume has the size of the volume.")
	}
}

// checkImage adds an error if the disk's image reference is invalid.
func (d Disk) checkImage(c *Checks, at string) {
	switch {
	case d.ImageID != "" && !IsID(string(d.ImageID)):
		c.Add(at+".imageId", "There is no such image.")
	case d.VersionID != "" && (d.ImageID == "" || !IsID(string(d.VersionID))):
		c.Add(at+".versionId", "Choose a version of an image.")
	case d.Overlay && d.ImageID == "":
		c.Add(at+".overlay", "Only a disk from an image of the library can be a linked clone.")
	}
}

func (v Volref) check(c *Checks, at string) {
	if v.PoolID == "" {
		c.Add(at+".poolId", "Choose a pool.")
	}
	if !IsVolumeName(v.Volume) {
		c.Add(at+".volume", invalidVolumeName)
	}
}

func (n NIC) check(c *Checks, at string) {
	switch {
	case n.NetworkID != "" && !IsID(string(n.NetworkID)):
		c.Add(at+".networkId", "There is no such network.")
	case n.Network != "" && n.Bridge != "":
		c.Add(at+".network", "Choose one network or one bridge.")
	case n.NetworkID == "" && n.Network == "" && n.Bridge == "":
		c.Add(at+".network", "Choose a network.")
	case n.Network != "" && !isNetworkName(n.Network):
		c.Add(at+".network", "%q is not a valid name of a libvirt network.", n.Network)
	case n.Bridge != "" && !isDeviceName(n.Bridge):
		c.Add(at+".bridge", "%q is not a valid name of a bridge device.", n.Bridge)
	}
	n.checkSecurityGroups(c, at)
	if n.PortGroup != "" {
		CheckPortGroupName(c, at+".portGroup", n.PortGroup)
	}
	if n.MAC == "" {
		return
	}
	if mac, err := net.ParseMAC(n.MAC); err != nil || len(mac) != 6 || mac[0]&1 != 0 {
		c.Add(at+".mac", "Enter a unicast MAC address such as 52:54:00:12:34:56.")
	}
}

// isNetworkName reports whether a libvirt network can have the name.
func isNetworkName(name string) bool {
	return strings.TrimSpace(name) != "" && len(name) <= 255 && !strings.Contains(name, "/") && IsPlainText(name) && !strings.ContainsFunc(name, isMisleadingRune)
}

// isDeviceName reports whether a network device can have the name. Names that look like an option are refused.
func isDeviceName(name string) bool {
	return name != "" && len(name) <= 15 && name != "." && name != ".." && name[0] != '-' && IsPlainText(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == ':' || unicode.IsSpace(r) || isMisleadingRune(r) })
}

// Check adds an error for each invalid field, with JSON paths below prefix ("spec").
func (s PoolSpec) Check(c *Checks, prefix string) {
	s.checkKind(c, prefix)
	if t := s.Kind.Info(); t.Kind != "" && !t.FilePool {
		if s.Path != "" {
			c.Add(prefix+".path", "A pool of kind %q has no directory on the hosts.", string(s.Kind))
		}
		CheckDescription(c, prefix+".description", s.Description)
		return
	}
	checkPath(c, prefix+".path", s.Path, "Enter an absolute path on the hosts, such as /srv/vm.")
	if p := path.Clean(s.Path); isSystemPath(p) && (p == s.Path || p+"/" == s.Path) {
		c.Add(prefix+".path", "%s belongs to the system. Enter another directory, such as /srv/vm.", p)
	}
	CheckDescription(c, prefix+".description", s.Description)
}

// System directories that cannot be pools, and directory trees that cannot contain pools. The portal only checks early:
// each agent decides by its own configuration, because only the host can resolve symbolic links.
var (
	systemDirs  = []string{"/", "/var", "/var/lib", "/var/lib/libvirt", "/home", "/tmp", "/var/tmp"}
	systemTrees = []string{
		"/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/dev", "/proc", "/sys", "/run", "/root", "/lost+found",
		"/opt", "/nix", "/gnu", "/snap", "/ostree", "/sysroot", "/var/opt", "/var/snap", "/var/www", "/var/lib/snapd", "/var/lib/flatpak",
		"/var/run", "/var/lock", "/var/log", "/var/spool", "/var/cache", "/var/mail", "/var/backups",
		"/var/lib/quantix", "/var/lib/quantix-agent", "/var/lib/systemd", "/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/dbus",
		"/var/lib/postgresql", "/var/lib/pgsql", "/var/lib/mysql", "/var/lib/docker", "/var/lib/containers", "/var/lib/containerd", "/var/lib/kubelet",
		"/var/lib/etcd", "/var/lib/private", "/var/lib/sss", "/var/lib/samba", "/var/lib/ceph", "/var/lib/nfs", "/var/lib/polkit-1", "/var/lib/swtpm-localca",
	}
	poolTrees = []string{"/var/lib/libvirt/images"} // trees below /var/lib/libvirt that may contain pools
)

func isSystemPath(p string) bool {
	below := func(tree string) bool { return p == tree || strings.HasPrefix(p, tree+"/") }
	switch {
	case slices.Contains(systemDirs, p) || slices.ContainsFunc(systemTrees, below):
		return true
	case path.Dir(p) == "/home" || below("/home") && strings.Contains(p, "/.") || strings.Contains(p+"/", "/.ssh/"):
		return true
	}
	return below("/var/lib/libvirt") && !slices.ContainsFunc(poolTrees, below)
}

func checkPath(c *Checks, field, p, ask string) {
	if why := pathRefusal(p, ask); why != "" {
		c.Add(field, "%s", why)
	}
}

func pathRefusal(p, ask string) string {
	switch {
	case !path.IsAbs(p) || len(p) > 1024:
		return ask
	case !IsPlainText(p) || path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/":
		return "Write the path without \"..\", doubled slashes or control characters."
	}
	return ""
}

package fleet

import (
	"regexp"
	"slices"
	"strings"
)

// PoolKind is the storage technology of a pool.
type PoolKind string

const (
	PoolDir     PoolKind = "dir"
	PoolNFS     PoolKind = "nfs"
	PoolGluster PoolKind = "glusterfs"
	PoolFS      PoolKind = "fs"
)

// PoolType describes a kind of pool, except how a host provides such a pool, which the hypervisor backend implements.
type PoolType struct {
	Kind    PoolKind
	Word    string      // name on pages: "NFS"
	Help    string      // help text of the choice
	Fields  []PoolField // fields of the storage's location, besides the path on the hosts
	Shared  bool        // all hosts always see the same data
	Local   bool        // each host always has its own data
	Mounted bool        // each host mounts the storage at the path, and mounts it again after the mount was lost
	// FilePool: volumes are files in a directory, which also contains a marker file that names the owner. Pools of
	// other kinds are identified by their source.
	FilePool bool
	// CreatesVolumes: Quantix can create, change and delete volumes. Otherwise the storage system provides the volumes,
	// and each disk uses an existing volume.
	CreatesVolumes bool
	QEMUClient     bool             // QEMU accesses the storage itself: the host has neither a file nor a device of a volume
	Secret         *PoolSecretField // credentials for the storage; nil: none
	source         func(PoolSpec) string
}

// PoolField is a field of a pool's location.
type PoolField struct {
	Name        string // name in the API, in forms and in errors: "server"
	Label, Hint string
	Choices     []string // allowed values; nil: any text that passes Check
	Optional    bool     // may be empty
	At          func(*PoolSpec) *string
	Check       func(value string) (refusal string)
}

var hostFileSystems = []string{"ext4", "xfs", "btrfs"}

var (
	poolServer = PoolField{
		Name: "server", Label: "Server", Hint: "The server's name or address, such as nas-1.example.org",
		At:    func(s *PoolSpec) *string { return &s.Server },
		Check: refuseUnless(hostAddrForm.MatchString, "Enter the server's name or address."),
	}
	poolExport = PoolField{
		Name: "export", Label: "Export", Hint: "Absolute path on the server, such as /exports/vm",
		At:    func(s *PoolSpec) *string { return &s.Export },
		Check: func(v string) string { return pathRefusal(v, "Enter the absolute path of the export.") },
	}
	poolVolume = PoolField{
		Name: "volume", Label: "Volume", Hint: "The name of the Gluster volume, such as gv0",
		At:    func(s *PoolSpec) *string { return &s.Volume },
		Check: refuseUnless(glusterVolumeForm.MatchString, "Enter the volume's name: letters, digits, \"-\" and \"_\"."),
	}
	poolDevice = PoolField{
		Name: "device", Label: "Device", Hint: "The block device with the file system, by a stable name: /dev/disk/by-label/… for one device per host, /dev/disk/by-id/… for a single host. Quantix never formats a device. Each host accepts only devices that its agent allows (poolDevices).",
		At: func(s *PoolSpec) *string { return &s.Device },
		Check: func(v string) string {
			const ask = "Enter the path of a block device on the hosts, such as /dev/disk/by-id/…"
			if !strings.HasPrefix(v, "/dev/") {
				return ask
			}
			return pathRefusal(v, ask)
		},
	}
	poolFormat = PoolField{
		Name: "format", Label: "File system", Hint: "The file system on the device.", Choices: hostFileSystems,
		At:    func(s *PoolSpec) *string { return &s.Format },
		Check: refuseUnless(func(v string) bool { return slices.Contains(hostFileSystems, v) }, "Choose one of "+strings.Join(hostFileSystems, ", ")+"."),
	}
)

// poolTypes lists all kinds, in the order of the form.
var poolTypes = []PoolType{
	{
		Kind: PoolDir, Word: "Directory", Help: "A directory on each host: on a local disk, or on storage that is already mounted.",
		FilePool: true, CreatesVolumes: true,
		source: func(s PoolSpec) string { return s.Path },
	},
	{
		Kind: PoolFS, Word: "File system", Help: "A local disk, partition or logical volume with a file system, which each host mounts.",
		Fields: []PoolField{poolDevice, poolFormat}, Local: true, Mounted: true, FilePool: true, CreatesVolumes: true,
		source: func(s PoolSpec) string { return s.Device },
	},
	{
		Kind: PoolNFS, Word: "NFS", Help: "An export of an NFS server, which each host mounts.",
		Fields: []PoolField{poolServer, poolExport}, Shared: true, Mounted: true, FilePool: true, CreatesVolumes: true,
		source: func(s PoolSpec) string { return s.Server + ":" + s.Export },
	},
	{
		Kind: PoolGluster, Word: "GlusterFS", Help: "A volume of a Gluster cluster, which each host mounts.",
		Fields: []PoolField{poolServer, poolVolume}, Shared: true, Mounted: true, FilePool: true, CreatesVolumes: true,
		source: func(s PoolSpec) string { return s.Server + ":/" + s.Volume },
	},
	{
		Kind: PoolISCSIDirect, Word: "iSCSI direct", Help: "LUNs of an iSCSI target, which QEMU accesses directly: hosts need no initiator in their kernel. Each disk of a VM is one LUN.",
		Fields: []PoolField{poolPortal, poolTarget, poolInitiator, poolUser}, Shared: true, QEMUClient: true, Secret: chap,
		source: func(s PoolSpec) string { return s.Target + " at " + s.Portal },
	},
	{
		Kind: PoolISCSI, Word: "iSCSI", Help: "LUNs of an iSCSI target as block devices of each host (open-iscsi). Each disk of a VM is one LUN.",
		Fields: []PoolField{poolPortal, poolTarget, poolUser}, Shared: true, Secret: chap,
		source: func(s PoolSpec) string { return s.Target + " at " + s.Portal },
	},
	{
		Kind: PoolRBD, Word: "Ceph RBD", Help: "A pool of a Ceph cluster. Each volume is an RBD image, which QEMU accesses directly.",
		Fields: []PoolField{poolMonitors, poolCeph, poolUser}, Shared: true, CreatesVolumes: true, QEMUClient: true, Secret: cephKey,
		source: func(s PoolSpec) string { return "rbd:" + s.CephPool + " at " + s.Monitors },
	},
	{
		Kind: PoolLogical, Word: "LVM", Help: "An existing LVM volume group of each host. Each volume is a logical volume.",
		Fields: []PoolField{poolGroup}, Local: true, CreatesVolumes: true,
		source: func(s PoolSpec) string { return "/dev/" + s.Group },
	},
}

var glusterVolumeForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// PoolTypes returns all kinds, in the order of the form.
func PoolTypes() []PoolType { return slices.Clone(poolTypes) }

// Info returns the kind's row of the table; the zero value for an unknown kind.
func (k PoolKind) Info() PoolType {
	if i := slices.IndexFunc(poolTypes, func(t PoolType) bool { return t.Kind == k }); i >= 0 {
		return poolTypes[i]
	}
	return PoolType{}
}

// PoolFields returns the fields of all kinds, each once, required fields first.
func PoolFields() (out []PoolField) {
	for _, t := range poolTypes {
		for _, f := range t.Fields {
			if !slices.ContainsFunc(out, func(o PoolField) bool { return o.Name == f.Name }) {
				out = append(out, f)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b PoolField) int { return optionalRank(a.Optional) - optionalRank(b.Optional) })
	return out
}

// optionalRank is a sort key that puts optional fields after required ones.
func optionalRank(optional bool) int {
	if optional {
		return 1
	}
	return 0
}

// Kinds lists the kinds of pools that have the field.
func (f PoolField) Kinds() (out []PoolKind) {
	for _, t := range poolTypes {
		if t.hasField(f) {
			out = append(out, t.Kind)
		}
	}
	return out
}

func (t PoolType) hasField(f PoolField) bool {
	return slices.ContainsFunc(t.Fields, func(o PoolField) bool { return o.Name == f.Name })
}

// Source returns the location of the data as text: "10.0.0.5:/exports/vm" or "/srv/vm".
func (s PoolSpec) Source() string {
	if t := s.Kind.Info(); t.source != nil {
		return t.source(s)
	}
	return s.Path
}

// WithoutFieldsOfOtherKinds returns the spec without the fields that its kind does not have. A form without scripts sends the fields of
// all kinds.
func (s PoolSpec) WithoutFieldsOfOtherKinds() PoolSpec {
	t := s.Kind.Info()
	for _, f := range PoolFields() {
		if !t.hasField(f) {
			*f.At(&s) = ""
		}
	}
	if t.Kind != "" && !t.FilePool {
		s.Path = ""
	}
	s.Shared = t.Shared || s.Shared && !t.Local
	return s
}

// checkKind adds an error for each missing field of the spec's kind, and for each field that the kind does not have.
func (s PoolSpec) checkKind(c *Checks, prefix string) {
	t := s.Kind.Info()
	if t.Kind == "" {
		c.Add(prefix+".kind", "A pool's kind is %s.", joinOr(toStrings(poolKinds())))
		return
	}
	if t.Local && s.Shared {
		c.Add(prefix+".shared", "A pool of kind %q is local to each host: two hosts must not use one device at the same time.", string(s.Kind))
	}
	for _, f := range PoolFields() {
		value := *f.At(&s)
		switch {
		case t.hasField(f):
			if why := f.Check(value); why != "" {
				c.Add(prefix+"."+f.Name, "%s", why)
			}
		case value != "":
			c.Add(prefix+"."+f.Name, "A pool of kind %q has no %s.", string(s.Kind), strings.ToLower(f.Label))
		}
	}
}

func poolKinds() (out []PoolKind) {
	for _, t := range poolTypes {
		out = append(out, t.Kind)
	}
	return out
}

// WhySingleHost returns why the pool can be on one host only; empty: it can be on several. A by-id device name can mean
// the same disk on every host, and two hosts that mount one file system at the same time destroy it.
func (s PoolSpec) WhySingleHost() string {
	for _, unique := range []string{"/dev/disk/by-id/", "/dev/disk/by-uuid/", "/dev/disk/by-partuuid/"} {
		if s.Kind == PoolFS && strings.HasPrefix(s.Device, unique) {
			return "The name " + s.Device + " identifies a single disk: hosts that mount it at the same time destroy its file system. " +
				"Choose one host, or name the device by a label that one disk of each host has (/dev/disk/by-label/…)."
		}
	}
	return ""
}

// joinOr joins words in quotes: "dir", "fs" or "nfs".
func joinOr(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = `"` + w + `"`
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

func refuseUnless(ok func(string) bool, refusal string) func(string) string {
	return func(v string) string {
		if ok(v) {
			return ""
		}
		return refusal
	}
}

// SupportsNewDisks reports whether the pool's kind supports new disks and the pool is not being deleted.
func (p PoolView) SupportsNewDisks() bool {
	is := p.Spec.Kind.Info()
	return p.DeletedAt == nil && (is.Kind == "" || is.CreatesVolumes)
}

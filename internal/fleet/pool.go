package fleet

import (
	"math"
	"strings"
	"time"
)

// Pool is storage that any number of hosts use under one name. Its libvirt name on every host is Name.
type Pool struct {
	ID         PoolID     `json:"id"`
	Name       string     `json:"name"`
	Spec       PoolSpec   `json:"spec"`
	Generation int64      `json:"generation"`
	CreatedAt  time.Time  `json:"createdAt"`
	DeletedAt  *time.Time `json:"deletedAt,omitempty"` // set: deletion is asked for; the pool goes when the last of its hosts has released it
}

// PoolSpec says where the storage is. Kind and places cannot be changed after creation.
type PoolSpec struct {
	Kind        PoolKind `json:"kind"`
	Path        string   `json:"path"`                // dir: the directory; else where it is mounted on each host; empty where volumes are no files
	Server      string   `json:"server,omitempty"`    // nfs, glusterfs
	Export      string   `json:"export,omitempty"`    // nfs: absolute path on the server
	Volume      string   `json:"volume,omitempty"`    // glusterfs: its name on the server
	Device      string   `json:"device,omitempty"`    // fs: block device on each host
	Format      string   `json:"format,omitempty"`    // fs: "ext4", "xfs" or "btrfs"
	Portal      string   `json:"portal,omitempty"`    // iscsi, iscsi-direct: the target's address, with its port where that is not 3260
	Target      string   `json:"target,omitempty"`    // iscsi, iscsi-direct: its name
	Initiator   string   `json:"initiator,omitempty"` // iscsi-direct: the name by which hosts ask
	User        string   `json:"user,omitempty"`      // iscsi, iscsi-direct, rbd: as whom; the secret that belongs to it is kept elsewhere
	Monitors    string   `json:"monitors,omitempty"`  // rbd: the cluster's, with commas between them
	CephPool    string   `json:"cephPool,omitempty"`  // rbd: the pool's name in the cluster
	Group       string   `json:"group,omitempty"`     // logical: the volume group on each host
	Shared      bool     `json:"shared"`              // the same bytes on every host (always true for what servers have): capacity counts once
	Description string   `json:"description,omitempty"`
}

// PoolState is the state of a pool on one host, as its agent said.
type PoolState string

const (
	PoolPending  PoolState = "pending" // assigned; the host has not said anything yet
	PoolActive   PoolState = "active"
	PoolInactive PoolState = "inactive" // defined, not started
	PoolFailed   PoolState = "failed"   // could not be mounted or started: see Error
	PoolStalled  PoolState = "stalled"  // the storage does not answer
	PoolUnknown  PoolState = "unknown"  // derived only: the host is not heard
)

// PoolStatus is what one host's agent says about a pool.
type PoolStatus struct {
	State            PoolState `json:"state"`
	CapacityBytes    int64     `json:"capacityBytes"`
	UsedBytes        int64     `json:"usedBytes"`
	AvailableBytes   int64     `json:"availableBytes"`
	ProvisionedBytes int64     `json:"promisedBytes,omitempty"` // what its volumes may still grow by
	MountPath        string    `json:"mountPath"`
	MountOptions     string    `json:"mountOptions,omitempty"`
	WriteMicros      int64     `json:"writeMicros,omitempty"` // how long a small write that reaches the storage takes; 0: not tried
	ReadMicros       int64     `json:"readMicros,omitempty"`  // and reading it back
	Volumes          []Volume  `json:"volumes,omitempty"`
	Error            string    `json:"error,omitempty"`    // what is wrong, in libvirt's own words where they are its: of an active pool that it is degraded
	Note             string    `json:"note,omitempty"`     // what is to be known, and no fault
	ByOthers         bool      `json:"byOthers,omitempty"` // inactive: somebody stopped it on the host, Quantix did not
	// FileSystem is the one that the pool's directory lies on; nil: it has no directory, or an older agent does not
	// report it.
	FileSystem *FileSystem `json:"fileSystem,omitempty"`
}

// FileSystem identifies a file system, so that pools on the same one are counted once.
type FileSystem struct {
	ID     string `json:"id"`               // its source ("nfs nas:/vms") where a server exports it, else its device number on the host ("8:1")
	Shared bool   `json:"shared,omitempty"` // a server exports it: the ID means the same file system on all hosts
}

// Volume is one volume of a pool. Format is "qcow2", "raw", "iso", ….
type Volume struct {
	Name          string `json:"name"`
	Path          string `json:"path"`
	Format        string `json:"format"`
	CapacityBytes int64  `json:"capacityBytes"`
	AllocBytes    int64  `json:"allocBytes"`
	Backing       string `json:"backing,omitempty"` // a backing file: such a volume is not offered as an image
	UsedBy        []VMID `json:"usedBy,omitempty"`  // domains of the host whose disk the file is, by whatever path; a medium in a drive is no disk. At most MaxUsers
	InDrive       []VMID `json:"inDrive,omitempty"` // domains of the host that have it in a drive, likewise
	// BaseOf are volumes of the host that stand on it: it is their backing file, or has their data. At most MaxUsers.
	BaseOf []string `json:"baseOf,omitempty"`
	// ModifiedAt is when it was last written, to the hour, so that a report changes as seldom; nil: not known, or a domain has it as its disk.
	ModifiedAt *time.Time `json:"modifiedAt,omitempty"`
	Unfinished bool       `json:"unfinished,omitempty"` // it was begun and has not been written to for long: never a whole volume
	// Fault is why the volume is listed and cannot be used, in a sentence. Name and Path are then as far as they are text.
	Fault string `json:"fault,omitempty"`
	// SHA256 is what the host computed when it was asked to, for as long as the file is the one that it was then. Altered: it was, and is not.
	SHA256  string `json:"sha256,omitempty"`
	Altered bool   `json:"altered,omitempty"`
	// StoodOn are those of UsedBy whose disk the file itself is not: their disk stands on it, and they only read it.
	StoodOn []VMID `json:"stoodOn,omitempty"`
	// Appliance is what machine the file is, where it is one: an OVA archive, or a disk in another product's format.
	Appliance *Appliance `json:"appliance,omitempty"`
	// Unsound is why the file is no image to make anything from, as its host reads it, in a sentence; empty: nothing speaks against it.
	Unsound string `json:"unsound,omitempty"`
}

// MaxUsers bounds whom a Volume names: any number of disks may stand on one file.
const MaxUsers = 8

// ModifiedTo is how exactly Volume.ModifiedAt is told.
const ModifiedTo = time.Hour

// PoolHost is one cell of the host × health matrix.
type PoolHost struct {
	PoolID    PoolID      `json:"poolId"`
	HostID    HostID      `json:"hostId"`
	HostName  string      `json:"hostName"`
	HostPhase HostPhase   `json:"hostPhase"`
	Status    *PoolStatus `json:"status"`            // nil: nothing said yet
	SeenAt    *time.Time  `json:"seenAt"`            // when the host was last heard
	State     PoolState   `json:"state"`             // derived: stale is unknown
	Starved   int         `json:"starved,omitempty"` // VMs there with a disk in it that are paused, because storage is full or fails
	Severity  Severity    `json:"tone"`              // how the cell is drawn: of its state, or worse
	Impact    *PoolImpact `json:"behind,omitempty"`  // what a fault there touches; nil: nothing is wrong, or it was not asked
	Notice    string      `json:"notice,omitempty"`  // what is to be known of it beside its state: "98 % used"
	Day       Day         `json:"day,omitempty"`     // on pages of one pool
	Assigned  bool        `json:"assigned"`          // false: release is asked for, the host has not yet done it
}

// PoolImpact is what stands behind a pool on one host: the VMs there with disks in it, and how many of their disks.
type PoolImpact struct {
	VMs     int `json:"vms"`
	Running int `json:"running"` // of the VMs, as the host said last
	Disks   int `json:"disks"`
}

// StateAt derives the cell's state from the last report and its age.
func (p PoolHost) StateAt(now time.Time) PoolState {
	var said PoolState
	if p.Status != nil {
		said = p.Status.State
	}
	return PoolStateOf(said, Fresh(p.SeenAt, now))
}

// PoolStateOf is a cell's state by what its host said last (empty: nothing) and whether that is still believed.
func PoolStateOf(said PoolState, fresh bool) PoolState {
	switch {
	case !fresh:
		return PoolUnknown
	case said == "":
		return PoolPending
	}
	return said
}

// Room is how much fits into a pool.
type Room struct {
	CapacityBytes, UsedBytes, AvailableBytes, ProvisionedBytes int64
}

// Plus adds the room of another pool or host.
func (r Room) Plus(o Room) Room {
	return Room{
		AddBytes(r.CapacityBytes, o.CapacityBytes), AddBytes(r.UsedBytes, o.UsedBytes),
		AddBytes(r.AvailableBytes, o.AvailableBytes), AddBytes(r.ProvisionedBytes, o.ProvisionedBytes),
	}
}

// AddBytes is the sum of two quantities of which hosts tell, none less than nothing. It stays at the largest number where there is no larger:
// however much one host claims to have, the sum is one.
func AddBytes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Room is how much fits into the pool on the host.
func (s PoolStatus) Room() Room {
	return Room{s.CapacityBytes, s.UsedBytes, s.AvailableBytes, s.ProvisionedBytes}
}

// UsedPercent is rounded down, so that a pool is full no sooner than it is; at most 1000.
func (r Room) UsedPercent() int {
	if r.CapacityBytes <= 0 {
		return 0
	}
	return int(min(float64(r.UsedBytes)/float64(r.CapacityBytes)*100, 1000))
}

// PoolHealth is a pool's aggregate over its hosts.
type PoolHealth struct {
	Hosts            int            `json:"hosts"`
	Healthy          int            `json:"healthy"`
	Failed           int            `json:"failed"`
	Degraded         int            `json:"degraded,omitempty"` // active, but something is wrong there
	Unknown          int            `json:"unknown"`
	Severity         Severity       `json:"tone"`
	Full             int            `json:"full,omitempty"`       // of the healthy, those where it is full or as good as full
	NearlyFull       int            `json:"nearlyFull,omitempty"` // of the healthy, those where it will soon be
	SeverityCounts   SeverityCounts `json:"tones,omitzero"`       // how many hosts are drawn in each tone
	Summary          string         `json:"summary"`              // "2 of 3 hosts healthy"
	CapacityBytes    int64          `json:"capacityBytes"`        // a shared pool counts once, from the first healthy host
	UsedBytes        int64          `json:"usedBytes"`
	AvailableBytes   int64          `json:"availableBytes"`
	ProvisionedBytes int64          `json:"promisedBytes,omitempty"` // what volumes may still grow by
}

// PoolView is a pool as people see it.
type PoolView struct {
	Pool
	Health PoolHealth `json:"health"`
	Hosts  []PoolHost `json:"hosts"` // at most HostStatusesListed: those first that want a person, then by name
}

// sound reports whether the volume is a whole one that orders can name.
func (v Volume) sound() bool { return !v.Unfinished && v.Fault == "" }

// IsISO reports whether the volume can be put into a CD-ROM drive.
func (v Volume) IsISO() bool {
	return v.sound() && (v.Format == "iso" || strings.HasSuffix(v.Name, ".iso"))
}

// IsPlain reports whether the volume is a file as it is: a kernel, a floppy.
func (v Volume) IsPlain() bool {
	return v.Format == "raw" && v.Backing == "" && v.sound()
}

// IsShareable reports whether several VMs can have the volume as their disk at once: raw, and nothing that stands on another.
func (v Volume) IsShareable() bool {
	return v.Fault == "" && (v.Format == FormatLUN || v.Format == FormatRBD || v.Format == FormatLV || v.IsPlain() && !v.IsISO())
}

// IsImage reports whether disks can be cloned from the volume: self-contained, and no ISO.
func (v Volume) IsImage() bool {
	return v.Backing == "" && v.sound() && (v.Format == "qcow2" || v.Format == "raw") && !v.IsISO()
}

var poolLooks = map[PoolState]struct {
	word string
	tone Severity
}{
	PoolPending: {"Pending", SeverityWarn}, PoolActive: {"Active", SeverityOK}, PoolInactive: {"Inactive", SeverityWarn},
	PoolFailed: {"Failed", SeverityBad}, PoolStalled: {"Not answering", SeverityBad}, PoolUnknown: {"Unknown", SeverityUnknown},
}

// Word is the state as people read it.
func (s PoolState) Word() string { return poolLooks[s].word }

// Severity is how the state is drawn.
func (s PoolState) Severity() Severity { return poolLooks[s].tone }

package fleet

import (
	"math"
	"strings"
	"time"
)

// Pool is storage that several hosts use under one name, which is also its libvirt name on every host.
type Pool struct {
	ID         PoolID    `json:"id"`
	Name       string    `json:"name"`
	Spec       PoolSpec  `json:"spec"`
	Generation int64     `json:"generation"`
	CreatedAt  time.Time `json:"createdAt"`
	// DeletedAt is set once deletion was requested. The pool is removed when its last host has released it.
	DeletedAt *time.Time `json:"deletedAt,omitempty"`
}

// PoolSpec is the location of a pool's storage. Kind and location are fixed after creation.
type PoolSpec struct {
	Kind PoolKind `json:"kind"`
	// Path is the directory (dir) or the mount point on each host (other file pools). Empty for block pools.
	Path   string `json:"path"`
	Server string `json:"server,omitempty"` // nfs, glusterfs
	Export string `json:"export,omitempty"` // nfs: absolute path on the server
	Volume string `json:"volume,omitempty"` // glusterfs: name of the Gluster volume
	Device string `json:"device,omitempty"` // fs: block device on each host
	Format string `json:"format,omitempty"` // fs: "ext4", "xfs" or "btrfs"
	// Portal is the address of an iSCSI target (iscsi, iscsi-direct), with a port if it is not 3260.
	Portal    string `json:"portal,omitempty"`
	Target    string `json:"target,omitempty"`    // iscsi, iscsi-direct: the target's name
	Initiator string `json:"initiator,omitempty"` // iscsi-direct: initiator name of the hosts
	// User is the user name for iscsi, iscsi-direct and rbd. Its secret is stored separately.
	User     string `json:"user,omitempty"`
	Monitors string `json:"monitors,omitempty"` // rbd: monitors of the cluster, separated by commas
	CephPool string `json:"cephPool,omitempty"` // rbd: the pool's name in the cluster
	Group    string `json:"group,omitempty"`    // logical: the volume group on each host
	// Shared: all hosts see the same data, so capacity counts once. Always true for network storage.
	Shared      bool   `json:"shared"`
	Description string `json:"description,omitempty"`
}

// PoolState is the state of a pool on one host, as its agent reported it.
type PoolState string

const (
	PoolPending  PoolState = "pending" // assigned; the host has not reported on it yet
	PoolActive   PoolState = "active"
	PoolInactive PoolState = "inactive" // defined, but not started
	PoolFailed   PoolState = "failed"   // mount or start failed: see Error
	PoolStalled  PoolState = "stalled"  // the storage does not answer
	PoolUnknown  PoolState = "unknown"  // derived only: the host is offline
)

// PoolStatus is one host's report on a pool.
type PoolStatus struct {
	State            PoolState `json:"state"`
	CapacityBytes    int64     `json:"capacityBytes"`
	UsedBytes        int64     `json:"usedBytes"`
	AvailableBytes   int64     `json:"availableBytes"`
	ProvisionedBytes int64     `json:"provisionedBytes,omitempty"` // bytes by which thin-provisioned volumes may still grow
	MountPath        string    `json:"mountPath"`
	MountOptions     string    `json:"mountOptions,omitempty"`
	// WriteMicros is the latency of a small write with sync, in microseconds; 0: not measured.
	WriteMicros int64    `json:"writeMicros,omitempty"`
	ReadMicros  int64    `json:"readMicros,omitempty"` // latency of reading the same data back
	Volumes     []Volume `json:"volumes,omitempty"`
	// Error: a problem, with libvirt's own message if there is one; an active pool with an error is degraded
	Error          string `json:"error,omitempty"`
	Note           string `json:"note,omitempty"`     // information about the pool that is not a fault
	StoppedOutside bool   `json:"byOthers,omitempty"` // the pool is inactive because it was stopped on the host outside Quantix
	// FileSystem is the file system of the pool's directory. Nil: the pool has no directory, or an older agent does not
	// report it.
	FileSystem *FileSystem `json:"fileSystem,omitempty"`
	Drift      []Drift     `json:"drift,omitempty"` // edits of the pool's definition
	// Preexisting: the host had the pool before Quantix, so the pool stays on the host after its release
	Preexisting bool `json:"preexisting,omitempty"`
}

// FileSystem identifies the file system of a pool, so that several pools on one file system count once.
type FileSystem struct {
	// ID: source ("nfs nas:/vms") of an exported file system, else the device number on the host ("8:1")
	ID     string `json:"id"`
	Shared bool   `json:"shared,omitempty"` // exported by a server: the ID means the same file system on all hosts
}

// Volume is one volume of a pool. Format is "qcow2", "raw", "iso", ….
type Volume struct {
	Name          string `json:"name"`
	Path          string `json:"path"`
	Format        string `json:"format"`
	CapacityBytes int64  `json:"capacityBytes"`
	AllocBytes    int64  `json:"allocBytes"`
	Backing       string `json:"backing,omitempty"` // backing file; a volume that has one cannot serve as an image
	// UsedBy lists domains of the host that have the volume's file as a disk, by whatever path; at most MaxUsers.
	UsedBy  []VMID `json:"usedBy,omitempty"`
	InDrive []VMID `json:"inDrive,omitempty"` // domains of the host that have the file in a drive, at most MaxUsers
	// BaseOf lists volumes of the host that use this volume as their backing file, or share data blocks with it; at
	// most MaxUsers.
	BaseOf []string `json:"baseOf,omitempty"`
	// ModifiedAt is the time of the last write, rounded to hours so that reports rarely change. Nil: unknown, or a
	// domain has the volume as a disk.
	ModifiedAt *time.Time `json:"modifiedAt,omitempty"`
	Unfinished bool       `json:"unfinished,omitempty"` // an incomplete volume that nothing has written to for a long time
	// Fault is the reason why the listed volume cannot be used. Invalid characters in Name and Path are then escaped.
	Fault string `json:"fault,omitempty"`
	// SHA256 is the checksum that the host computed on request. Altered: the file has changed since then.
	SHA256  string `json:"sha256,omitempty"`
	Altered bool   `json:"altered,omitempty"`
	// BackingUsers lists domains of UsedBy that only read the file, because it is a backing file of their disk.
	BackingUsers []VMID `json:"stoodOn,omitempty"`
	// Appliance describes the VM in the file, if it is an OVA archive or a disk in another product's format.
	Appliance *Appliance `json:"appliance,omitempty"`
	// NotImageReason is the reason why the file cannot serve as an image, from the host's inspection; empty: no objection.
	NotImageReason string `json:"unsound,omitempty"`
}

// MaxUsers bounds each list of users of a Volume, because any number of disks may be backed by one file.
const MaxUsers = 8

// ModifiedResolution is the resolution of Volume.ModifiedAt.
const ModifiedResolution = time.Hour

// PoolHost is the status of a pool on one host.
type PoolHost struct {
	PoolID    PoolID        `json:"poolId"`
	HostID    HostID        `json:"hostId"`
	HostName  string        `json:"hostName"`
	HostPhase HostPhase     `json:"hostPhase"`
	Status    *PoolStatus   `json:"status"`            // nil: nothing reported yet
	SeenAt    *ReportTime   `json:"seenAt"`            // when the host was last seen
	State     PoolState     `json:"state"`             // derived: unknown if the report is stale
	PausedVMs int           `json:"starved,omitempty"` // VMs on the host that are paused because the pool is full or fails
	Severity  Severity      `json:"severity"`          // severity of State, or a worse one because the pool is nearly full
	Impact    *PoolImpact   `json:"impact,omitempty"`  // VMs affected by the pool's problem on the host; nil: no problem, or not queried
	Notice    string        `json:"notice,omitempty"`  // notice beside the state: "98 % used"
	Day       StatusHistory `json:"day,omitempty"`     // 24-hour history; only on pages of one pool
	Assigned  bool          `json:"assigned"`          // false: release was requested and the host has not finished it
}

// PoolImpact counts the VMs on one host with disks in a pool, and those disks.
type PoolImpact struct {
	VMs     int `json:"vms"`
	Running int `json:"running"` // running VMs among them, as last reported
	Disks   int `json:"disks"`
}

// StateAt derives the state from the last report and its age.
func (p PoolHost) StateAt(now time.Time) PoolState {
	var reported PoolState
	if p.Status != nil {
		reported = p.Status.State
	}
	return DerivePoolState(reported, IsReportFresh(p.SeenAt, now))
}

// DerivePoolState derives a pool's state on one host from the last reported state (empty: none) and whether the report is
// fresh.
func DerivePoolState(reported PoolState, fresh bool) PoolState {
	switch {
	case !fresh:
		return PoolUnknown
	case reported == "":
		return PoolPending
	}
	return reported
}

// PoolSpace is the space of a pool, in bytes.
type PoolSpace struct {
	CapacityBytes, UsedBytes, AvailableBytes, ProvisionedBytes int64
}

// Plus returns the sum of both spaces.
func (r PoolSpace) Plus(o PoolSpace) PoolSpace {
	return PoolSpace{
		AddBytes(r.CapacityBytes, o.CapacityBytes), AddBytes(r.UsedBytes, o.UsedBytes),
		AddBytes(r.AvailableBytes, o.AvailableBytes), AddBytes(r.ProvisionedBytes, o.ProvisionedBytes),
	}
}

// AddBytes returns the sum of two non-negative sizes, limited to the largest int64, so that wrong sizes from a host
// cannot make the sum overflow.
func AddBytes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Space returns the pool's space on the host.
func (s PoolStatus) Space() PoolSpace {
	return PoolSpace{s.CapacityBytes, s.UsedBytes, s.AvailableBytes, s.ProvisionedBytes}
}

// UsedPercent returns the used share of the capacity, at most 1000. It is rounded down, so that no pool counts as
// full too early.
func (r PoolSpace) UsedPercent() int {
	if r.CapacityBytes <= 0 {
		return 0
	}
	return int(min(float64(r.UsedBytes)/float64(r.CapacityBytes)*100, 1000))
}

// PoolHealth is the aggregate of a pool's host statuses.
type PoolHealth struct {
	Hosts          int            `json:"hosts"`
	Healthy        int            `json:"healthy"`
	Failed         int            `json:"failed"`
	Degraded       int            `json:"degraded,omitempty"` // hosts where the pool is active but has an error
	Unknown        int            `json:"unknown"`
	Severity       Severity       `json:"severity"`
	Full           int            `json:"full,omitempty"`          // healthy hosts where the pool is full or almost full
	NearlyFull     int            `json:"nearlyFull,omitempty"`    // healthy hosts where the pool is nearly full
	SeverityCounts SeverityCounts `json:"severityCounts,omitzero"` // number of hosts by severity
	Summary        string         `json:"summary"`                 // "2 of 3 hosts healthy"
	CapacityBytes  int64          `json:"capacityBytes"`           // a shared pool counts once, from the first healthy host
	UsedBytes      int64          `json:"usedBytes"`
	AvailableBytes int64          `json:"availableBytes"`
	// ProvisionedBytes: bytes by which thin-provisioned volumes may still grow
	ProvisionedBytes int64 `json:"provisionedBytes,omitempty"`
	Drifted          int   `json:"drifted,omitempty"` // online hosts with open drift; 0 for users who may not see hosts
	// AffectedVMs: VMs of the user's projects on hosts with a problem; only for users who may not see hosts
	AffectedVMs int `json:"affectedVms,omitempty"`
}

// PoolView is a pool as the API and pages show it.
type PoolView struct {
	Pool
	Grants []ProjectGrant `json:"grants"` // grants that the user may see
	Health PoolHealth     `json:"health"`
	Hosts  []PoolHost     `json:"hosts"` // at most HostStatusesListed: hosts that need attention first, then by name
}

// OpenToProject reports whether VMs of the project may use the pool.
func (p PoolView) OpenToProject(project ProjectID) bool { return GrantedTo(project, p.Grants) }

// isUsable reports whether the volume is complete and has no fault.
func (v Volume) isUsable() bool { return !v.Unfinished && v.Fault == "" }

// IsISO reports whether the volume can be put into a CD-ROM drive.
func (v Volume) IsISO() bool {
	return v.isUsable() && (v.Format == "iso" || strings.HasSuffix(v.Name, ".iso"))
}

// IsPlainFile reports whether the volume is a plain file, such as a kernel or a floppy image.
func (v Volume) IsPlainFile() bool {
	return v.Format == "raw" && v.Backing == "" && v.isUsable()
}

// IsShareable reports whether several VMs can have the volume as a disk at once: it must be raw and have no backing
// file.
func (v Volume) IsShareable() bool {
	return v.Fault == "" && (v.Format == FormatLUN || v.Format == FormatRBD || v.Format == FormatLV || v.IsPlainFile() && !v.IsISO())
}

// IsImage reports whether disks can be cloned from the volume: it has no backing file and is no ISO.
func (v Volume) IsImage() bool {
	return v.Backing == "" && v.isUsable() && (v.Format == "qcow2" || v.Format == "raw") && !v.IsISO()
}

var poolStateDisplay = map[PoolState]struct {
	word     string
	severity Severity
}{
	PoolPending: {"Pending", SeverityWarn}, PoolActive: {"Active", SeverityOK}, PoolInactive: {"Inactive", SeverityWarn},
	PoolFailed: {"Failed", SeverityBad}, PoolStalled: {"Not answering", SeverityBad}, PoolUnknown: {"Unknown", SeverityUnknown},
}

// DisplayName returns the state as pages show it.
func (s PoolState) DisplayName() string { return poolStateDisplay[s].word }

// Severity returns the state's severity on pages.
func (s PoolState) Severity() Severity { return poolStateDisplay[s].severity }

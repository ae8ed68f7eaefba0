package fleet

// MaxMoveRate is the highest rate limit of a disk migration, bytes per second.
const MaxMoveRate = 100 << 30

// MinMoveRate is the lowest rate limit of a disk migration, bytes per second.
const MinMoveRate = 1 << 20

// DiskMigrationParams holds the parameters of a disk migration: the disk and its target volume.
type DiskMigrationParams struct {
	Disk      Volref `json:"disk"`
	To        Volref `json:"to"`
	RateBytes int64  `json:"rateBytes,omitempty"` // maximum bytes per second; 0: unlimited
	// TakesBytes is the pool space reserved for the copy while the job runs.
	TakesBytes int64 `json:"takesBytes,omitempty"`
}

// MovingDisk is a disk with a running or queued migration.
type MovingDisk struct {
	DiskMigrationParams
	Task     TaskID   `json:"task"`
	State    JobState `json:"state"`
	Progress int      `json:"progress"`
	Note     string   `json:"note,omitempty"`
}

// CheckMigrationRate adds an error at field if the rate limit is out of bounds.
func CheckMigrationRate(c *Checks, field string, bytes int64) {
	if bytes != 0 && (bytes < MinMoveRate || bytes > MaxMoveRate) {
		c.Add(field, "A rate limit must be between 1 MiB/s and 100 GiB/s. Leave the field empty for no limit.")
	}
}

// AllowsDiskMigration reports whether the disk can be migrated now; the string is the reason if not. moving lists the
// VM's disks under migration.
func (v VMView) AllowsDiskMigration(disk Volref, moving []MovingDisk) (bool, string) {
	ok, why := v.Allows(ActEdit)
	d := v.Spec.diskByVolume(disk)
	switch {
	case !ok:
		return false, why
	case v.whyUnreachable() != "":
		return false, v.whyUnreachable()
	case v.Phase == PhaseCreating || v.Status == nil || v.Status.Power == Absent:
		return false, "The VM is not on its host yet."
	case v.MissingDiskFault(disk) != nil:
		return false, v.MissingDiskFault(disk).Text
	case v.faultByCode(FaultUndefined) != nil:
		return false, "The VM runs without a definition. Reapply the definition first."
	case v.disksDrifted():
		return false, "The VM's disks were changed on the host. Accept the drift or reapply first."
	case v.WhySnapshotsBlockDiskJobs() != "":
		return false, v.WhySnapshotsBlockDiskJobs()
	case d.Encryption != "":
		return false, "The disk is encrypted with a passphrase that only its host has, so it cannot be copied."
	case d.WhyRawNotCopied() != "":
		return false, "The disk " + d.WhyRawNotCopied()
	case d.Shareable:
		return false, "The disk is shared with other VMs, so it cannot be moved."
	}
	for _, m := range moving {
		if m.Disk == disk {
			return false, "The disk is already being moved. Wait for that task, or cancel it."
		}
	}
	if len(moving) > 0 { // one at a time: a second queued job would replace the first
		return false, "Another disk of the VM is being moved. Wait for that task, or cancel it."
	}
	return true, ""
}

func (v VMView) disksDrifted() bool {
	for _, d := range v.Status.Drift {
		if d.Field == "disks" {
			return true
		}
	}
	return false
}

// MoveTarget is a possible target pool of a disk migration.
type MoveTarget struct {
	PoolID         PoolID `json:"poolId"`
	PoolName       string `json:"poolName"`
	FreeBytes      int64  `json:"freeBytes"` // bytes not reserved by any volume
	Allowed        bool   `json:"allowed"`
	Reason         string `json:"reason,omitempty"` // why the migration is not allowed
	LacksOnlySpace bool   `json:"room,omitempty"`   // only space is missing; a user who may overcommit can ignore that
}

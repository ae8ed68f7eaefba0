package hypervisor

import (
	"context"
	"fmt"
	"slices"

	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// ApplyWork is the job that creates a VM's disks and definition. All fields are required unless noted.
type ApplyWork struct {
	VM           fleet.VM
	Project      string         // the project's name: see DomainNames
	Pools        []fleet.Pool   // all pools that the spec names and that are assigned to this host
	CreatedDisks []fleet.Volref // disks whose creation was completed earlier: none is ever created again
	// AppliedGeneration is the generation that this agent applied last; 0: unknown. If the definition has an older
	// generation, somebody restored the definition, so it does not have the last applied spec.
	AppliedGeneration int64
	// SpecHash is the portal's hash of the job's spec. Two hashes for one generation mean that the portal's database
	// was restored from a backup.
	SpecHash      string
	OwnershipMark string               // the VM's ownership mark, stored in the domain's metadata; empty: preserve the present one
	Groups        []secgroup.FlatGroup // all security groups of the VM's NICs
	// Adopted is set for a VM that was adopted: a domain with the VM's UUID and without Quantix metadata becomes the VM.
	Adopted       bool
	Reapply       bool     // write the complete spec, and overwrite edits made on the host
	ReapplyFields []string // with Reapply: overwrite only edits of these fields; empty: of all
	// FirstBoot fetches the first-boot files, by name. It is called only if the host does not have the files; nil: the
	// files cannot be fetched.
	FirstBoot func(context.Context) (map[string][]byte, error)
	// RecordDisk receives each disk once its content is complete, before a definition names the disk. If RecordDisk
	// fails, the job ends, because an unrecorded disk would be created twice.
	RecordDisk func(fleet.Volref) error
	Progress   Progress
}

// Overwrites reports whether the job overwrites an edit of the field that was made on the host.
func (in ApplyWork) Overwrites(field string) bool {
	return in.Reapply && (len(in.ReapplyFields) == 0 || slices.Contains(in.ReapplyFields, field))
}

// OverwriteAll and OverwriteNothing are ApplyWork.Overwrites of jobs without a VM's edits.
func OverwriteAll(string) bool     { return true }
func OverwriteNothing(string) bool { return false }

// LacksMergeBase reports whether the definition cannot be the base of a three-way merge; definedGeneration is the
// generation in the definition's metadata. Either an administrator restored an older definition, or the portal's
// database was restored and has no record of the applied spec.
func (in ApplyWork) LacksMergeBase(definedGeneration int64, was AppliedRecord) bool {
	return definedGeneration < in.AppliedGeneration || definedGeneration > in.VM.Generation ||
		definedGeneration == in.VM.Generation && in.SpecHash != "" && was.SpecHash != "" && was.SpecHash != in.SpecHash
}

// DomainNames returns the candidates for the VM's domain name in order of preference: the VM's name, the VM's name with
// the project's name, and the VM's name with the project's name and the end of the VM's ID. The backend uses the first
// candidate that no other domain has. Names of VMs and projects contain no "_".
func DomainNames(vm, project string, id fleet.VMID) []string {
	const most = 200 // bytes: libvirt derives file names from the domain's name
	cut := func(s string, n int) string { return s[:min(len(s), n)] }
	unique := "_" + cut(string(id[max(0, len(id)-12):]), 8)
	long := vm
	if project != "" {
		long += "_" + project
	}
	names := []string{cut(vm, most), cut(long, most), cut(long, most-len(unique)) + unique}
	if project == "" {
		return []string{names[0], names[2]}
	}
	return names
}

// MissingDiskFault returns the fault of a created disk that is missing. why is a sentence, such as "Its file is
// missing."
func MissingDiskFault(number int, ref fleet.Volref, pool, host, why string) fleet.Fault {
	in := "volume " + ref.Volume
	if pool != "" {
		in = "pool " + pool + ", " + in
	}
	f := fleet.Fault{Code: fleet.FaultDisk, Text: fmt.Sprintf("Disk %d (%s) is not on %s: %s", number, in, host, why)}
	if ref.PoolID != "" {
		f.Disk = &ref
	}
	return f
}

// Reasons why a disk is missing, shared by both backends.
const (
	FileReplacedReason  = "a link, a device or a folder has replaced the disk's file. Restore the file, detach the disk, or give the VM a new disk."
	FileMissingReason   = "the disk's file is missing. Restore the file, detach the disk, or give the VM a new disk."
	VolumeMissingReason = "the storage does not have the volume. Restore the volume, detach the disk, or give the VM a new disk."
	PoolInactiveReason  = "the pool is not active on the host. Start the pool."
	PoolReplacedReason  = "another directory has replaced the pool's directory. Check the pool."
)

// FaultError returns the fault as the error of a job.
func FaultError(f fleet.Fault) error { return fleet.RefusalError(f.Text) }

// FileOutsidePoolsFault returns the fault of a VM that uses a file outside the pools as a medium, a kernel or a backing
// file.
func FileOutsidePoolsFault(path, host string) fleet.Fault {
	return fleet.Fault{Code: fleet.FaultDisk, Text: fmt.Sprintf("The VM uses %s, which is not a plain file of a pool on %s, so the VM cannot start. "+
		"Move the file into a pool, or remove it from the VM.", path, host)}
}

// UndefinedDomainFault returns the fault of a guest whose definition was removed.
func UndefinedDomainFault() fleet.Fault {
	return fleet.Fault{Code: fleet.FaultUndefined, Text: "Somebody removed the VM's definition on the host. The VM still runs, but is lost when it stops. Reapply the VM's configuration to define the VM again."}
}

// GuestLostByLibvirtFault returns the fault of a running guest that libvirt reports as off. pid is QEMU's process ID. statusFile
// is the path of the file that libvirt could not read.
func GuestLostByLibvirtFault(pid int, statusFile string) fleet.Fault {
	return fleet.Fault{Code: fleet.FaultLost, Text: fmt.Sprintf("libvirt has lost the VM: libvirt reports the VM as off, but its QEMU (process %d) is still running. Quantix refuses all jobs for the VM. "+
		"libvirt's log says why libvirt could not read %s. Repair that file and restart libvirt, or end that process.", pid, statusFile)}
}

// PausedByDiskErrorFault returns the fault of a guest that QEMU paused because of a disk. full reports that the disk's storage is
// full; otherwise QEMU gave no reason.
func PausedByDiskErrorFault(which string, ref *fleet.Volref, full bool) fleet.Fault {
	f := fleet.Fault{Code: fleet.FaultIO, Disk: ref, Text: "QEMU paused the VM, because " + which + " could not be written or read. Check the disk's storage, then resume the VM."}
	if full {
		f.Text = "QEMU paused the VM, because the storage of " + which + " is full. Free space there, then resume the VM."
	}
	return f
}

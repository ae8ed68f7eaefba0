package hypervisor

import (
	"context"
	"net"

	"quantix/internal/fleet"
)

// VMs defines, starts, stops, moves and deletes virtual machines, and connects to their consoles.
type VMs interface {
	// VM returns the status of one domain; Power is fleet.Absent if the domain does not exist. generation is the
	// generation in the domain's metadata.
	VM(ctx context.Context, id fleet.VMID) (status fleet.VMStatus, generation int64, err error)

	// ApplyVM creates disks that were never created, and writes the differences between the spec and the last applied
	// spec into the persistent definition. It writes the VM's ID, the generation and the applied spec into the
	// definition's metadata. Edits made on the host stay and show in VMStatus.Drift, unless the job is to reapply the
	// spec.
	//
	// ApplyVM never starts or stops the guest. Changes that a running guest gets only at its next start show in
	// VMStatus.NextBoot; pending unplugs show in VMStatus.PendingUnplug, too. A VM without a definition gets a new one
	// that uses its existing disks. If a disk that was created before is missing, ApplyVM changes nothing and returns
	// the text of VMStatus.Faults.
	//
	// Changes to a NIC's security groups and anti-spoofing take effect immediately. ApplyVM never changes a security
	// group that the host already has: only ApplySecurityGroup does. An unmanaged network filter of a NIC stays, and
	// shows in VMStatus.Drift.
	//
	// First-boot data is fetched and written once for each version, and again if its file is missing. It is removed
	// with the VM, and when no definition and no running guest uses it.
	//
	// ApplyVM refuses a domain with the VM's UUID but without the VM's Quantix metadata, unless the VM was adopted: then
	// it first writes the metadata, and nothing else, into the definitions of the running and the stopped domain. It
	// creates no domain in place of an adopted one that it never found. If another domain has the VM's name, the VM's
	// domain gets another name: see DomainNames. No error names another domain.
	ApplyVM(ctx context.Context, in ApplyWork) error

	// PlanVM returns the VM's current definition (empty if there is none) and the definition after ApplyVM of the same
	// job. Both are XML with one element per line, without Quantix metadata and secrets. PlanVM changes nothing and
	// refuses everything that ApplyVM refuses before its first change.
	PlanVM(ctx context.Context, in ApplyWork) (before, after string, err error)

	// SetOwnershipMark writes the VM's ownership mark into the metadata of the domain's definition and of the running
	// domain, so that the ownership mark follows a migration. It changes nothing else, and does nothing if the domain
	// already has this ownership mark. The host's report proves with wire.VMReport.Proof that the domain has the mark.
	SetOwnershipMark(ctx context.Context, id fleet.VMID, mark string) error

	// StartVM starts the VM. It refuses if a disk is missing, and does nothing if the VM is already running.
	StartVM(ctx context.Context, id fleet.VMID) error
	ShutdownVM(ctx context.Context, id fleet.VMID) error // asks the guest and returns immediately; no-op if off
	StopVM(ctx context.Context, id fleet.VMID) error     // forces the guest off; no-op if off
	RebootVM(ctx context.Context, id fleet.VMID) error   // asks the guest
	ResetVM(ctx context.Context, id fleet.VMID) error
	PauseVM(ctx context.Context, id fleet.VMID) error  // no-op if paused
	ResumeVM(ctx context.Context, id fleet.VMID) error // no-op if running

	// ControlUnmanagedVM does one power action to a domain without Quantix metadata, and never changes its definition.
	// act is one of fleet.ActStart, ActShutdown, ActReboot, ActReset, ActPause, ActResume and ActStop; each does nothing
	// where the method for managed VMs does nothing. A shutdown asks the guest and returns immediately.
	// ControlUnmanagedVM refuses a domain with Quantix metadata, and refuses to stop a guest without a persistent
	// definition, because the host would lose the domain.
	ControlUnmanagedVM(ctx context.Context, id fleet.VMID, act fleet.Action) error

	// ReadUnmanagedVM reads the definition of a domain without Quantix metadata as a spec, for its adoption, and changes
	// nothing. A disk belongs to the spec if its file or volume lies in one of the pools, which are assigned to this host.
	// AdoptableVM.Refusals has the reasons against an adoption. ReadUnmanagedVM refuses a domain with the metadata of
	// another VM only if that VM is its own.
	ReadUnmanagedVM(ctx context.Context, id fleet.VMID, pools []fleet.Pool) (fleet.AdoptableVM, error)

	// ReleaseVM removes Quantix's metadata and network filters from the VM's domain, and forgets the VM's snapshots. The
	// guest, its disks and the rest of the definition stay. It succeeds if the domain does not exist or has no metadata.
	ReleaseVM(ctx context.Context, vm fleet.VM) error

	// MoveDisk copies a disk of the VM into another pool under the given name. It switches the running guest to the
	// copy without a pause, and then updates the definition and the stored applied spec. The old file stays, but
	// nothing refers to the old file any more. A failed or cancelled move leaves the VM on the old disk and removes the
	// copy. After an interrupted call, MoveDisk waits for a copy that QEMU is still writing, and repeats every other
	// incomplete step. It refuses a disk with snapshots, a disk with a backing file, and a disk whose definition
	// somebody changed.
	MoveDisk(ctx context.Context, in MoveDiskWork) error

	// MigrateVM sends each disk of a stopped VM with Send, and its UEFI variables and TPM state if the job lists them. It
	// removes the VM's definition, UEFI variables and TPM state once WaitArrived returns. The disk files stay, but nothing
	// refers to these files any more. A failure leaves the VM unchanged. MigrateVM refuses VMs with further state outside
	// their disk files: snapshots, disks with backing files, or an encrypted TPM. If an earlier call has removed the
	// definition, MigrateVM only calls WaitArrived and removes the remaining files and filters.
	MigrateVM(ctx context.Context, in MigrateVMWork) error

	// ReceiveFirmware stores the UEFI variables and the TPM state that the host sends that calls MigrateVM. ApplyVM puts
	// them in place when it next creates the VM's definition; until then nothing uses them. It refuses if this host has a
	// definition of the VM. A repeated call of a completed job receives nothing.
	ReceiveFirmware(ctx context.Context, in ReceiveFirmwareWork) error

	// DiscardFirmware removes what ReceiveFirmware stored for the transfer, because the VM stays on its host. It does
	// nothing if another transfer has brought the stored state, or if there is none.
	DiscardFirmware(ctx context.Context, vm fleet.VMID, transfer fleet.TransferID) error

	// MigrateRunningVM migrates a running VM to the host that calls ReceiveVM with the same VM. The disks of Params.Disks
	// are copied to their volumes on the target, and all other disks must be in pools that both hosts share. The VM runs on
	// exactly one host when both calls have ended: if the target fails, or if ctx ends before the guest was transferred,
	// the VM keeps running on this host, and the error is the reason. If the target's result is unknown, the guest stays
	// paused until AwaitTarget returns. The files of copied disks stay on this host, but nothing refers to them any more.
	// MigrateRunningVM refuses host devices, and copied disks with snapshots, backing files or encryption.
	MigrateRunningVM(ctx context.Context, in LiveMigrationWork) error

	// ReceiveVM receives a running VM from the host that calls MigrateRunningVM. It returns once the VM runs here, with
	// its persistent definition. After a failure this host has neither guest nor definition, nor files of copied disks
	// that the call created. It refuses if the host already has a definition of the VM, or a volume with the name of a
	// copied disk. The error is ErrCancelled if a user cancelled the migration on the source host.
	ReceiveVM(ctx context.Context, in ReceiveVMWork) error

	// RecycleVM forces the guest off, if it is on, and disables libvirt's autostart of its domain.
	RecycleVM(ctx context.Context, id fleet.VMID) error

	// DeleteVM forces the guest off and undefines the domain with its NVRAM. With disks, it deletes the volumes of the
	// spec's disks, but never an image or ISO. It succeeds if the domain does not exist.
	DeleteVM(ctx context.Context, vm fleet.VM, pools []fleet.Pool, disks bool) error

	// Console dials the local VNC endpoint of a VM, or of a domain without Quantix metadata.
	Console(ctx context.Context, id fleet.VMID) (net.Conn, error)
}

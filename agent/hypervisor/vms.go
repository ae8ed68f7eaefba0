package hypervisor

import (
	"context"
	"net"

	"quantix/internal/fleet"
)

// VMs defines, starts, stops, moves and deletes virtual machines, and connects to their consoles.
type VMs interface {
	// VM returns the status of one domain; Power is fleet.Absent if the domain does not exist. generation is the one
	// stamped into the domain's metadata.
	VM(ctx context.Context, id fleet.VMID) (status fleet.VMStatus, generation int64, err error)

	// ApplyVM creates disks that were never created, and writes the differences between the spec and the last applied
	// spec into the persistent definition. It stamps the definition with the VM's id and generation and stores the
	// applied spec there. Edits made on the host stay and show in VMStatus.Drift, unless the order is to reapply.
	// ApplyVM never starts or stops the guest. Changes that a running guest gets only at its next start show in
	// VMStatus.NextBoot; pending unplugs show in VMStatus.PendingUnplug too. A VM without a definition gets a new one that
	// uses its existing disks. If a disk that was created before is missing, ApplyVM changes nothing and returns the
	// text of VMStatus.Faults. Changes of a NIC's security groups and anti-spoofing take effect at once. ApplyVM never
	// changes a security group that the host has already: only ApplySecurityGroup does. A network filter that somebody
	// else gave a NIC stays, and shows in VMStatus.Drift. First-boot data is fetched and written once for each version
	// of it, and again if its file is missing. It is removed with the VM, and when no definition and no running guest
	// uses it. ApplyVM refuses a domain with the VM's UUID but without the VM's Quantix metadata. If another domain has
	// the VM's name, the VM's domain gets another one: see DomainNames. No error names another domain.
	ApplyVM(ctx context.Context, in Apply) error

	// PlanVM returns the VM's current definition (empty if there is none) and the definition that ApplyVM of the same
	// order would leave. Both are XML with one element a line, without Quantix metadata and secrets. PlanVM changes
	// nothing and refuses what ApplyVM refuses before its first change.
	PlanVM(ctx context.Context, in Apply) (before, after string, err error)

	// MarkVM writes the VM's mark into the metadata of the domain's definition, and of the running domain as well, so
	// that the mark follows a migration. It changes nothing else, and nothing at all if the mark is there already.
	// wire.VMReport.Proof reports the mark.
	MarkVM(ctx context.Context, id fleet.VMID, mark string) error

	// StartVM starts the VM and refuses if a disk is missing. It does nothing if the VM is running already.
	StartVM(ctx context.Context, id fleet.VMID) error
	ShutdownVM(ctx context.Context, id fleet.VMID) error // asks the guest and returns at once; no-op if off
	StopVM(ctx context.Context, id fleet.VMID) error     // forces it off; no-op if off
	RebootVM(ctx context.Context, id fleet.VMID) error   // asks the guest
	ResetVM(ctx context.Context, id fleet.VMID) error
	PauseVM(ctx context.Context, id fleet.VMID) error  // no-op if paused
	ResumeVM(ctx context.Context, id fleet.VMID) error // no-op if running

	// MoveDisk copies a disk of the VM into another pool, under the name given, and switches the VM to the copy: the
	// running guest without a pause, its definition, and the stored applied spec. The old file stays, but nothing
	// refers to it any more. A failed or cancelled move leaves the VM on the old disk, without a copy. After an
	// interrupted call, MoveDisk follows the copy that QEMU still makes, and restarts everything else that is
	// incomplete. It refuses a disk with snapshots, a disk with a backing file, and one whose definition somebody
	// changed.
	MoveDisk(ctx context.Context, in MoveDisk) error

	// MigrateVM sends each disk of a VM that is off by Send, and removes its definition once all have Arrived; the
	// disks stay, but nothing refers to them any more. A failure leaves the VM as it was. It refuses VMs that are more
	// than their disk files: with snapshots, NVRAM, a TPM, or disks with backing files. If an earlier call has removed
	// the definition, it only waits until all have Arrived.
	MigrateVM(ctx context.Context, in MigrateVM) error

	// DeleteVM forces the guest off and undefines it with its NVRAM; with disks, it deletes the volumes that spec names
	// (never an image or ISO). It succeeds if the domain does not exist.
	DeleteVM(ctx context.Context, vm fleet.VM, pools []fleet.Pool, disks bool) error

	// Console dials the VM's local VNC endpoint.
	Console(ctx context.Context, id fleet.VMID) (net.Conn, error)
}

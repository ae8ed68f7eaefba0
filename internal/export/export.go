// Package export describes files for download that hold a VM or one of its disks.
package export

import (
	"fmt"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// Lifetime is how long an exported file stays in its pool for download.
const Lifetime = 48 * time.Hour

// MaxPerProject is the maximum number of stored exports of one project.
const MaxPerProject = 10

// Formats are the formats of an export.
var Formats = []string{fleet.FormatOVA, "qcow2"}

// File is a file for download that holds a VM or one of its disks.
type File struct {
	ID        fleet.ExportID  `json:"id"`
	VMID      fleet.VMID      `json:"vmId"`
	ProjectID fleet.ProjectID `json:"projectId"`
	TaskID    fleet.TaskID    `json:"taskId"`
	Format    string          `json:"format" enum:"ova,qcow2"`
	Disk      int             `json:"disk,omitempty"` // number of the VM's disk, from 1; 0: all disks
	Volume    string          `json:"volume"`         // file name
	PoolID    fleet.PoolID    `json:"poolId,omitempty"`
	HostID    fleet.HostID    `json:"hostId,omitempty"` // only for users who may see hosts
	State     fleet.JobState  `json:"state"`            // state of its task
	Progress  int             `json:"progress"`
	Note      string          `json:"note,omitempty"`
	Error     string          `json:"error,omitempty"`
	CreatedBy string          `json:"createdBy"`
	CreatedAt time.Time       `json:"createdAt"`
	ExpiresAt time.Time       `json:"expiresAt"` // the file is deleted then
}

// AllowsDownload reports whether the file can be downloaded now; the string is the reason if not.
func (e File) AllowsDownload() (bool, string) {
	switch {
	case !e.State.IsFinal():
		return false, "The file is still being created. Wait until the task has ended."
	case e.State != fleet.JobDone:
		return false, "The export failed: " + e.Error
	}
	return true, ""
}

// Appliance returns the description of a VM for an archive, with its disks as files. networks are the network
// names of the VM's NICs, in order.
func Appliance(v fleet.VMView, networks []string) fleet.Appliance {
	a := fleet.Appliance{Name: v.Name, CPUs: v.Spec.CPUs, MemoryMiB: v.Spec.MemoryMiB, Firmware: v.Spec.Firmware}
	if g := v.Status; g != nil && g.Guest != nil {
		a.OS = g.Guest.OS
		switch text := strings.ToLower(a.OS); {
		case strings.Contains(text, "windows"):
			a.Family = "windows"
		case strings.Contains(text, "bsd"):
			a.Family = "bsd"
		case text != "":
			a.Family = "linux"
		}
	}
	ide := 0
	for i, d := range v.Spec.Disks {
		controller := "pvscsi" // paravirtual, like virtio
		switch {
		case d.Bus == "ide" && ide < 2: // one IDE controller has room for two disks
			controller, ide = d.Bus, ide+1
		case d.Bus == "sata" || d.Bus == "usb" || d.Bus == "ide":
			controller = "sata"
		case d.Bus == "nvme":
			controller = d.Bus
		}
		a.Disks = append(a.Disks, fleet.ApplianceDisk{Member: fmt.Sprintf("%s-disk%d.vmdk", v.Name, i+1), Format: "vmdk", SizeBytes: v.DiskBytes(d), Controller: controller})
	}
	for i, n := range v.Spec.NICs {
		nic := fleet.ApplianceNIC{Model: "vmxnet3"}
		if n.Model != "" {
			nic.Model = "e1000e"
		}
		if i < len(networks) {
			nic.Network = networks[i]
		}
		a.NICs = append(a.NICs, nic)
	}
	return a
}

// Missing lists what the export of a VM does not contain, one sentence each.
func Missing(v fleet.VMView) []string {
	out := []string{"Snapshots, MAC addresses, security groups, limits and policies: the imported VM gets its own."}
	if v.Spec.FirstBoot != (fleet.VMFirstBoot{}) {
		out = append(out, "The first-boot data (users, keys, passwords).")
	}
	if v.Spec.Firmware == fleet.UEFI {
		out = append(out, "The firmware variables (NVRAM) with boot entries and Secure Boot keys: the imported VM's firmware searches for the boot loader again.")
	}
	if v.Spec.Boot.Machine != "" {
		out = append(out, "The machine type (pc): choose it for the imported VM, whose guest may support no other.")
	}
	if v.Spec.Security.TPM {
		out = append(out, "The TPM's state: data that the guest sealed with the TPM (BitLocker, LUKS) needs its recovery key in the imported VM.")
	}
	if v.Spec.ISO != nil {
		out = append(out, "The disc in the CD-ROM drive.")
	}
	return out
}

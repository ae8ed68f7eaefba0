package vm

import (
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// ImportPath is the address of the page of importable files.
const ImportPath = "/vms/import"

// ImportPage lists the files that VMs can be imported from.
type ImportPage struct {
	Actor fleet.Actor
	Link  kit.Link
	Files []ImportFile
	Pools []kit.Named // pools that accept uploads

	Uploads []fleet.Upload // the actor's own unfinished uploads
}

// ImportFile is one importable file.
type ImportFile struct {
	fleet.Volume
	Pool, Host kit.Named
	HostID     fleet.HostID // set for a local pool
	PoolID     fleet.PoolID
	Why        string // why the file cannot be imported now
}

// ImportHref is the address of the form that imports a VM from the file. The host is set for a local pool.
func ImportHref(pool fleet.PoolID, host fleet.HostID, volume string) string {
	link := kit.Link{Path: "/vms/new"}.With("import", volume).With("pool", string(pool))
	if host != "" {
		link = link.With("host", string(host))
	}
	return link.String()
}

func (f ImportFile) id() string { return string(f.PoolID) + "-" + string(f.HostID) + "-" + f.Name }

// kindText is the file's kind, in words.
func (f ImportFile) kindText() string {
	if f.Format == fleet.FormatOVA {
		return "OVA archive"
	}
	if f.Format == "vpc" {
		return "VHD disk"
	}
	return strings.ToUpper(f.Format) + " disk"
}

// contentsText describes the file's contents.
func (f ImportFile) contentsText() string {
	a := f.Appliance
	words := []string{}
	if a.CPUs > 0 {
		words = append(words, kit.Count(a.CPUs, "vCPU"))
	}
	if a.MemoryMiB > 0 {
		words = append(words, kit.Bytes(int64(a.MemoryMiB)<<20)+" memory")
	}
	total := int64(0)
	for _, d := range a.Disks {
		total += d.SizeBytes
	}
	if len(a.Disks) > 0 {
		words = append(words, kit.Count(len(a.Disks), "disk")+" of "+kit.Bytes(total))
	}
	if len(a.NICs) > 0 {
		words = append(words, kit.Count(len(a.NICs), "NIC"))
	}
	return strings.Join(words, ", ")
}

// imports is the action that opens the import page.
func (p *ListPage) imports() kit.Act {
	a := kit.Act{Icon: "upload", Word: "Import", Href: ImportPath}
	if !p.RunsHosts {
		a.Why = "You do not have permission to upload files. Ask an administrator."
	}
	return a
}

// ExportPage is the dialog that exports a VM, with the list of its exports.
type ExportPage struct {
	VM     fleet.VMView
	Now    time.Time
	Why    string // why the VM cannot be exported now
	Files  []fleet.Export
	Pools  []kit.Option // pools of the VM's disks
	In     ExportForm
	Errors kit.Errors
}

// ExportForm holds the format and the pool that a person chose for an export.
type ExportForm struct{ What, Pool string }

// deletedAtText is the time at which the exported file is deleted, in words.
func (p ExportPage) deletedAtText(e fleet.Export) string {
	left := e.ExpiresAt.Sub(p.Now)
	if left < time.Hour {
		return "within the hour"
	}
	return "in " + kit.Count(int(left.Hours()+0.5), "hour")
}

// kinds are the export formats: "ova", or "qcow2" with a disk's index.
func (p ExportPage) kinds() []kit.Option {
	out := []kit.Option{{Value: fleet.FormatOVA, Text: "OVA archive: " + kit.Count(len(p.VM.Spec.Disks), "disk") + " as VMDK, with its settings"}}
	for i, d := range p.VM.Spec.Disks {
		n := strconv.Itoa(i + 1)
		out = append(out, kit.Option{Value: "qcow2/" + n, Text: "Disk " + n + " as qcow2 (" + kit.Bytes(p.VM.DiskBytes(d)) + ")"})
	}
	return out
}

// ExportContent is the download address of an export.
func ExportContent(id fleet.ExportID) string { return "/exports/" + string(id) + "/content" }

func exportFormatText(e fleet.Export) string {
	if e.Disk > 0 {
		return "Disk " + strconv.Itoa(e.Disk) + " as qcow2"
	}
	return "OVA archive"
}

func (p ExportPage) deleteAct(e fleet.Export) kit.Act {
	why := ""
	if !e.State.Ended() {
		why = "The export is running. Cancel its task first."
	}
	return kit.Act{
		Icon: "trash-2", Word: "Delete", Label: "Delete " + e.Volume, Post: "/exports/" + string(e.ID) + "/delete", Back: views.VMPath(p.VM.ID, "export"),
		Confirm: "Delete the file " + e.Volume + "?", Danger: true,
	}.When(why)
}

func exportAct(vm fleet.VMView) kit.Act {
	return kit.Act{Icon: "download", Word: "Export", Href: views.VMPath(vm.ID, "export")}
}

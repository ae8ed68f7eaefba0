package vm

import (
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// ImportPath is the page of the files that VMs can be made of.
const ImportPath = "/vms/import"

// ImportPage lists the files of which a VM can be made.
type ImportPage struct {
	Actor fleet.Actor
	Link  kit.Link
	Files []ImportFile
	Pools []kit.Named // into which one can be uploaded: the forms for that

	Uploads []fleet.Upload // the person's own that have not ended
}

// ImportFile is one of them.
type ImportFile struct {
	fleet.Volume
	Pool, Host kit.Named
	HostID     fleet.HostID // of a local pool
	PoolID     fleet.PoolID
	Why        string // why no VM can be made of it now
}

// ImportHref is the form of a new VM that is made of the file. host: of a local pool, whose.
func ImportHref(pool fleet.PoolID, host fleet.HostID, volume string) string {
	link := kit.Link{Path: "/vms/new"}.With("import", volume).With("pool", string(pool))
	if host != "" {
		link = link.With("host", string(host))
	}
	return link.String()
}

func (f ImportFile) id() string { return string(f.PoolID) + "-" + string(f.HostID) + "-" + f.Name }

// kindOf is what the file is, in words.
func (f ImportFile) kindOf() string {
	if f.Format == fleet.FormatOVA {
		return "OVA archive"
	}
	if f.Format == "vpc" {
		return "VHD disk"
	}
	return strings.ToUpper(f.Format) + " disk"
}

// contents is what is in it, in words.
func (f ImportFile) contents() string {
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

// imports is where VMs come from that were made elsewhere.
func (p *ListPage) imports() kit.Act {
	a := kit.Act{Icon: "upload", Word: "Import", Href: ImportPath}
	if !p.RunsHosts {
		a.Why = "Files come into pools by those who may change infrastructure. Ask an administrator."
	}
	return a
}

// ExportPage asks as what a VM is exported, and lists what was exported of it.
type ExportPage struct {
	VM     fleet.VMView
	Now    time.Time
	Why    string // why it cannot be exported now
	Files  []fleet.Export
	Pools  []kit.Option // that it uses
	In     ExportForm
	Errors kit.Errors
}

// ExportForm is what a person chose.
type ExportForm struct{ What, Pool string }

// end is when the file is deleted, in words.
func (p ExportPage) end(e fleet.Export) string {
	left := e.ExpiresAt.Sub(p.Now)
	if left < time.Hour {
		return "within the hour"
	}
	return "in " + kit.Count(int(left.Hours()+0.5), "hour")
}

// kinds are what the VM can be exported as: "ova", or "qcow2" and the disk's number.
func (p ExportPage) kinds() []kit.Option {
	out := []kit.Option{{Value: fleet.FormatOVA, Text: "OVA archive: " + kit.Count(len(p.VM.Spec.Disks), "disk") + " as VMDK, with its settings"}}
	for i, d := range p.VM.Spec.Disks {
		n := strconv.Itoa(i + 1)
		out = append(out, kit.Option{Value: "qcow2/" + n, Text: "Disk " + n + " as qcow2 (" + kit.Bytes(p.VM.DiskBytes(d)) + ")"})
	}
	return out
}

// ExportContent is where the file of an export is fetched.
func ExportContent(id fleet.ExportID) string { return "/exports/" + string(id) + "/content" }

func exportWhat(e fleet.Export) string {
	if e.Disk > 0 {
		return "Disk " + strconv.Itoa(e.Disk) + " as qcow2"
	}
	return "OVA archive"
}

func (p ExportPage) drop(e fleet.Export) kit.Act {
	why := ""
	if !e.State.Ended() {
		why = "It is being made. Cancel its task first."
	}
	return kit.Act{
		Icon: "trash-2", Word: "Delete", Label: "Delete " + e.Volume, Post: "/exports/" + string(e.ID) + "/delete", Back: views.VMPath(p.VM.ID, "export"),
		Sure: "Delete the file " + e.Volume + "?", Danger: true,
	}.When(why)
}

func exportAct(vm fleet.VMView) kit.Act {
	return kit.Act{Icon: "download", Word: "Export", Href: views.VMPath(vm.ID, "export")}
}

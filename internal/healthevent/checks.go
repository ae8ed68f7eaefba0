package healthevent

// CheckInfo describes a check of the agent on pages and in the editor of policies.
type CheckInfo struct {
	Name   string
	Title  string
	Values []ValueInfo // of its findings; not every finding has each of them
	Texts  []ValueInfo // attributes
}

// ValueInfo describes a value or an attribute of a check's findings.
type ValueInfo struct {
	Name, Help string
}

// Checks lists the checks of the agent, in the order of pages.
var Checks = []CheckInfo{
	{Name: "boot", Title: "Boot"},
	{Name: "libvirt", Title: "Hypervisor", Values: []ValueInfo{{"seconds", "time that the hypervisor needed to answer"}}},
	{Name: "clock", Title: "Clock", Values: []ValueInfo{{"offsetSeconds", "difference to the portal's clock"}}},
	{Name: "certificate", Title: "Certificate", Values: []ValueInfo{{"days", "days until the agent's certificate ends"}}},
	{Name: "pool", Title: "Storage pools", Values: []ValueInfo{{"usedPercent", "used space of the pool"}}},
	{
		Name: "smart", Title: "Disks (SMART)",
		Values: []ValueInfo{
			{"temperature", "°C"},
			{"reallocatedSectors", "sectors that the disk has replaced"},
			{"pendingSectors", "sectors that the disk cannot read"},
			{"uncorrectableSectors", "sectors that the disk could not correct"},
			{"percentUsed", "used endurance of a solid state disk"},
			{"mediaErrors", "errors of the media"},
			{"powerOnHours", "hours in operation"},
		},
		Texts: []ValueInfo{{"model", "model of the disk"}, {"serial", "serial number"}},
	},
	{
		Name: "edac", Title: "Memory (EDAC)", Values: []ValueInfo{{"corrected", "corrected errors"}, {"uncorrected", "uncorrected errors"}},
		Texts: []ValueInfo{{"dimm", "label of the module"}},
	},
	{Name: "nic", Title: "Physical NICs", Values: []ValueInfo{{"errors", "errors within an hour"}, {"drops", "dropped packets within an hour"}}},
	{
		Name: "gpu", Title: "GPUs",
		Values: []ValueInfo{
			{"xid", "number of the XID error"}, {"temperature", "°C"}, {"uncorrected", "uncorrected ECC errors"}, {"corrected", "corrected ECC errors"},
		},
		Texts: []ValueInfo{{"model", "model of the GPU"}, {"uuid", "UUID of the GPU"}},
	},
}

// InfoOf returns the check's row; a check that the table lacks has its name as title.
func InfoOf(check string) CheckInfo {
	for _, c := range Checks {
		if c.Name == check {
			return c
		}
	}
	return CheckInfo{Name: check, Title: check}
}

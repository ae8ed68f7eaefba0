package fleet

import (
	"slices"
	"strings"
)

// FilterKey is a key before the colon of a filter term.
type FilterKey struct {
	Key     string     // the word in the column's heading
	Aliases []string   // other words for the key
	Help    string     // text for completion: "the VM's state"
	Values  []string   // all possible values; nil: any text
	Unit    FilterUnit // of numbers, which can be compared with > and <
}

// FilterKeys are the filter keys of one resource type.
type FilterKeys []FilterKey

// FilterUnit is the unit of a filter key's numbers.
type FilterUnit int

// Units of filter keys.
const (
	UnitNone  FilterUnit = iota // the key's values are texts
	UnitCount                   // plain numbers, or percent
	UnitSize                    // bytes; a suffix K, M, G or T multiplies by powers of 1024
	UnitDate                    // days in UTC, such as 2026-01-31
)

// Filter keys of each resource type. A key is the word in the heading of the column that it filters.
var (
	VMKeys = FilterKeys{
		oneOfKey("state", "the VM's state", toStrings(VMPhases), "phase"),
		oneOfKey("attention", "whether the VM needs attention", yesNo),
		oneOfKey("drift", "whether the VM's definition on its host differs from the spec", yesNo),
		oneOfKey("managed", "no: VMs that Quantix only discovered on hosts", yesNo),
		oneOfKey("adopted", "whether the VM was adopted", yesNo),
		textKey("host", "name of the VM's host"),
		textKey("cluster", "name of the cluster of the VM's host"),
		textKey("project", "name of the VM's project"),
		textKey("name", "part of the name"),
		textKey("label", "key=value, or a key alone", "labels"),
		numberKey("vcpu", "number of vCPUs: vcpu>4", UnitCount, "vcpus", "cpus"),
		numberKey("cpu", "CPU load in percent of all vCPUs, of the last minute: cpu>50", UnitCount, "load"),
		numberKey("memory", "the VM's memory: memory>=8G", UnitSize),
		textKey("description", "part of the description"),
		textKey("pool", "a pool with a disk of the VM"),
		textKey("network", "a network or bridge of a NIC of the VM"),
		textKey("uuid", "the VM's UUID", "id"),
		textKey("mac", "a MAC address of the VM"),
		textKey("address", "an IP address of the VM"),
		numberKey("created", "the day of the VM's creation in UTC: created>2026-01-31", UnitDate),
	}
	DiscoveredKeys = FilterKeys{
		oneOfKey("managed", "yes: VMs of Quantix", yesNo),
		textKey("name", "part of the name"),
		textKey("host", "name of the VM's host"),
		oneOfKey("state", "the VM's state", toStrings([]Phase{
			PhaseRunning, PhaseNeedsRestart, PhasePaused, PhaseStopped, PhaseCrashed, PhaseLost, PhaseUnknown,
		}), "phase"),
		numberKey("vcpu", "number of vCPUs: vcpu>4", UnitCount, "vcpus", "cpus"),
		numberKey("memory", "the VM's memory: memory>=8G", UnitSize),
		textKey("uuid", "the VM's UUID", "id"),
	}
	HostKeys = FilterKeys{
		oneOfKey("state", "the host's state", toStrings(HostPhases), "phase"),
		textKey("name", "part of the name"),
		textKey("cluster", "name of the host's cluster"),
		oneOfKey("cordoned", "whether the host is cordoned", yesNo),
		oneOfKey("lifecycle", "the host's lifecycle: lifecycle:maintenance", toStrings(HostLifecycles)),
		oneOfKey("health", "the most serious open health condition: health:critical", []string{string(AlarmCritical), string(AlarmWarning), string(AlarmInfo), "none"}),
		textKey("label", "key=value, or a key alone", "labels"),
		numberKey("vms", "number of VMs: vms>20", UnitCount),
		numberKey("vcpus", "number of allocated vCPUs: vcpus>64", UnitCount, "vcpu"),
		numberKey("memory", "allocated memory: memory>256G", UnitSize),
		textKey("hypervisor", "part of the hypervisor's name and version"),
		textKey("os", "part of the operating system's name", "operating-system"),
		textKey("description", "part of the description"),
		numberKey("joined", "the day on which the host joined, in UTC: joined>2026-01-31", UnitDate, "created"),
		textKey("uuid", "the host's UUID", "id"),
	}
	PoolKeys = FilterKeys{
		textKey("name", "part of the name"),
		oneOfKey("drift", "whether a host has another definition of the pool", yesNo),
		oneOfKey("health", "the pool's health", toStrings([]Severity{SeverityOK, SeverityWarn, SeverityBad, SeverityUnknown, SeverityIdle}), "tone"),
		oneOfKey("kind", "the pool's kind", toStrings(poolKinds())),
		textKey("host", "name of a host with the pool assigned"),
		textKey("source", "part of the server, path, device or volume group"),
		numberKey("used", "used share of the pool in percent: used>80", UnitCount),
		numberKey("free", "free space: free<100G", UnitSize),
		textKey("description", "part of the description"),
		numberKey("created", "the day of the pool's creation in UTC: created>2026-01-31", UnitDate),
		textKey("uuid", "the pool's UUID", "id"),
	}
	NetworkKeys = FilterKeys{
		textKey("name", "part of the name"),
		oneOfKey("kind", "the network's kind", toStrings([]NetworkKind{NetworkLibvirt, NetworkBridge})),
		oneOfKey("drift", "whether a host has another definition of the network", yesNo),
		textKey("host", "name of a host with the network", "hosts"),
		textKey("uuid", "the network's UUID", "id"),
	}
	ImageKeys = FilterKeys{
		textKey("name", "part of the name"),
		textKey("system", "a word of the operating system: debian, 12, x86_64", "os"),
		oneOfKey("format", "format of the newest version", []string{"qcow2", "raw", "iso"}),
		numberKey("size", "size of the newest version: size>2G", UnitSize),
		oneOfKey("published", "whether the image is published to a project", yesNo),
		textKey("pool", "name of a pool with a copy of the image"),
		numberKey("created", "the day of the image's creation in UTC: created>2026-01-31", UnitDate),
		textKey("uuid", "the image's UUID", "id"),
	}
	TemplateKeys = FilterKeys{
		textKey("name", "part of the name"),
		textKey("system", "a word of the operating system: debian, 12, x86_64", "os"),
		textKey("project", "name of the template's project"),
		oneOfKey("published", "whether the template is published to another project", yesNo),
		numberKey("created", "the day of the template's creation in UTC: created>2026-01-31", UnitDate),
		textKey("uuid", "the template's UUID", "id"),
	}
	RecycledKeys = FilterKeys{
		textKey("name", "part of the name"), textKey("project", "name of the project"), textKey("by", "who deleted the VM"), textKey("uuid", "the VM's UUID", "id"),
		numberKey("deleted", "the day of the deletion in UTC", UnitDate), numberKey("purge", "the day of the purge in UTC", UnitDate),
	}
	TaskKeys = FilterKeys{
		oneOfKey("state", "the task's state", toStrings([]JobState{JobQueued, JobRunning, JobDone, JobFailed, JobCancelled, JobUnknown})),
		oneOfKey("kind", "the kind of task", toStrings(JobKindsWhere(func(k JobKindInfo) bool { return !k.Background }))),
		textKey("target", "name of the VM or pool, or vm:<id>"),
		textKey("host", "name of the host that executes the task"),
		textKey("who", "who requested the task; me: yourself"),
		textKey("parent", "the UUID of the parent task"),
	}
	ProjectKeys = FilterKeys{
		textKey("name", "part of the name"),
	}
	UserKeys = FilterKeys{
		textKey("name", "the user's name"),
		oneOfKey("role", "what the user may do in all projects", append(RoleNames(FleetRoles()), "none")),
	}
	TokenKeys = FilterKeys{
		textKey("name", "the token's name"),
	}
	JoinTokenKeys = FilterKeys{
		textKey("name", "name of the host that joined with the token"),
	}
)

var yesNo = []string{"yes", "no"}

func textKey(key, help string, aliases ...string) FilterKey {
	return FilterKey{Key: key, Help: help, Aliases: aliases}
}

func oneOfKey(key, help string, values []string, aliases ...string) FilterKey {
	return FilterKey{Key: key, Help: help, Values: values, Aliases: aliases}
}

func numberKey(key, help string, unit FilterUnit, aliases ...string) FilterKey {
	return FilterKey{Key: key, Help: help, Unit: unit, Aliases: aliases}
}

func toStrings[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// Find returns the key with the name or alias, in any case.
func (keys FilterKeys) Find(name string) (FilterKey, bool) {
	name = strings.ToLower(name)
	for _, k := range keys {
		if k.Key == name || slices.Contains(k.Aliases, name) {
			return k, true
		}
	}
	return FilterKey{}, false
}

// SecurityGroupKeys are the filter keys of the list of security groups.
var SecurityGroupKeys = FilterKeys{textKey("name", "part of the name")}

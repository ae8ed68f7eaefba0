package fleet

// Filter keys of each resource type.
var (
	VMKeys = FilterKeys{
		{"phase", "the VM's phase", toStrings(VMPhases)},
		{"attention", "whether the VM needs attention", []string{"yes", "no"}},
		{"drift", "whether the VM's definition on its host differs from the spec", []string{"yes", "no"}},
		{"host", "name of the VM's host", nil},
		{"project", "name of the VM's project", nil},
		{"name", "part of the name", nil},
		{"label", "key=value, or a key alone", nil},
		{"pool", "a pool with a disk of the VM", nil},
		{"network", "a network or bridge of a NIC of the VM", nil},
		{"id", "the VM's UUID", nil},
		{"mac", "a MAC address of the VM", nil},
		{"address", "an IP address of the VM", nil},
	}
	DiscoveredKeys = FilterKeys{
		{"name", "part of the name", nil},
		{"host", "name of the VM's host", nil},
		{"phase", "the VM's phase", []string{
			string(PhaseRunning), string(PhaseNeedsRestart), string(PhasePaused), string(PhaseStopped), string(PhaseCrashed), string(PhaseLost), string(PhaseUnknown),
		}},
		{"id", "the VM's UUID", nil},
	}
	HostKeys = FilterKeys{
		{"phase", "the host's state", toStrings(HostPhases)},
		{"name", "part of the name", nil},
		{"label", "key=value, or a key alone", nil},
	}
	PoolKeys = FilterKeys{
		{"name", "part of the name", nil},
		{"kind", "the pool's kind", toStrings(poolKinds())},
		{"host", "name of a host with the pool assigned", nil},
		{"tone", "the pool's health", toStrings([]Severity{SeverityOK, SeverityWarn, SeverityBad, SeverityUnknown, SeverityIdle})},
	}
	NetworkKeys = FilterKeys{
		{"name", "part of the name", nil},
		{"kind", "the network's kind", toStrings([]NetworkKind{NetworkLibvirt, NetworkBridge})},
		{"host", "name of a host with the network", nil},
	}
	ImageKeys = FilterKeys{
		{"name", "part of the name", nil},
		{"os", "a word of the operating system: debian, 12, x86_64", nil},
		{"format", "format of the newest version", toStrings([]string{"qcow2", "raw", "iso"})},
		{"published", "whether the image is published to a project", toStrings([]string{"yes", "no"})},
		{"pool", "name of a pool with a copy of the image", nil},
	}
	TemplateKeys = FilterKeys{
		{"name", "part of the name", nil},
		{"os", "a word of the operating system: debian, 12, x86_64", nil},
		{"project", "name of the template's project", nil},
		{"published", "whether the template is published to another project", toStrings([]string{"yes", "no"})},
	}
	TaskKeys = FilterKeys{
		{"state", "the task's state", toStrings([]JobState{JobQueued, JobRunning, JobDone, JobFailed, JobCancelled, JobUnknown})},
		{"kind", "the kind of task", toStrings(JobKindsWhere(func(k JobKindInfo) bool { return !k.Background }))},
		{"target", "name of the VM or pool, or vm:<id>", nil},
		{"host", "name of the host that executes the task", nil},
		{"who", "who requested the task; me: yourself", nil},
		{"parent", "the UUID of the parent task", nil},
	}
	ProjectKeys = FilterKeys{
		{"name", "part of the name", nil},
	}
	UserKeys = FilterKeys{
		{"name", "the user's name", nil},
		{"role", "what the user may do in all projects", append(RoleNames(FleetRoles()), "none")},
	}
	TokenKeys = FilterKeys{
		{"name", "the token's name", nil},
	}
	JoinTokenKeys = FilterKeys{
		{"name", "name of the host that joined with the token", nil},
	}
)

func toStrings[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

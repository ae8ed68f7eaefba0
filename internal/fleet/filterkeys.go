package fleet

// Filter keys of each resource type.
var (
	VMKeys = FilterKeys{
		{"phase", "what it does now", texts(VMPhases)},
		{"attention", "whether it waits for a person", []string{"yes", "no"}},
		{"drift", "whether its definition on its host differs from the spec", []string{"yes", "no"}},
		{"host", "name of its host", nil},
		{"project", "name of its project", nil},
		{"name", "its name", nil},
		{"label", "key=value, or a key alone", nil},
		{"pool", "a pool that holds a disk of it", nil},
		{"network", "a network or bridge that it is on", nil},
		{"id", "its UUID", nil},
		{"mac", "a MAC address of it", nil},
		{"address", "an IP address of it", nil},
	}
	FoundKeys = FilterKeys{
		{"name", "its name", nil},
		{"host", "name of its host", nil},
		{"phase", "what it does now", []string{
			string(PhaseRunning), string(PhaseNeedsRestart), string(PhasePaused), string(PhaseStopped), string(PhaseCrashed), string(PhaseLost), string(PhaseUnknown),
		}},
		{"id", "its UUID", nil},
	}
	HostKeys = FilterKeys{
		{"phase", "how it is", texts(HostPhases)},
		{"name", "its name", nil},
		{"label", "key=value, or a key alone", nil},
	}
	PoolKeys = FilterKeys{
		{"name", "its name", nil},
		{"kind", "what it is made of", texts(poolKinds())},
		{"host", "name of a host that it is assigned to", nil},
		{"tone", "its health", texts([]Severity{SeverityOK, SeverityWarn, SeverityBad, SeverityUnknown, SeverityIdle})},
	}
	NetworkKeys = FilterKeys{
		{"name", "its name", nil},
		{"kind", "what it is", texts([]NetworkKind{NetworkLibvirt, NetworkBridge})},
		{"host", "name of a host that has it", nil},
	}
	ImageKeys = FilterKeys{
		{"name", "its name", nil},
		{"os", "a word of its system: debian, 12, x86_64", nil},
		{"format", "of its newest version", texts([]string{"qcow2", "raw", "iso"})},
		{"published", "whether a project may use it", texts([]string{"yes", "no"})},
		{"pool", "name of a pool with a copy of it", nil},
	}
	TemplateKeys = FilterKeys{
		{"name", "its name", nil},
		{"os", "a word of its system: debian, 12, x86_64", nil},
		{"project", "name of the project whose it is", nil},
		{"published", "whether another project than its own may use it", texts([]string{"yes", "no"})},
	}
	TaskKeys = FilterKeys{
		{"state", "where it stands", texts([]JobState{JobQueued, JobRunning, JobDone, JobFailed, JobCancelled, JobUnknown})},
		{"kind", "what it does", texts(KindsWhere(func(k Kind) bool { return !k.Aside }))},
		{"target", "name of the VM or pool, or vm:<id>", nil},
		{"host", "name of the host that does it", nil},
		{"who", "who asked for it; me: you", nil},
		{"parent", "the UUID of the task that it is a part of", nil},
	}
	ProjectKeys = FilterKeys{
		{"name", "its name", nil},
	}
	UserKeys = FilterKeys{
		{"name", "the user's name", nil},
		{"role", "what the user may do in all projects", append(RoleNames(FleetRoles()), "none")},
	}
	TokenKeys = FilterKeys{
		{"name", "what it is for", nil},
	}
	JoinTokenKeys = FilterKeys{
		{"name", "name of the host that joined with it", nil},
	}
)

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

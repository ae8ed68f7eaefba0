package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// fieldsWithErrors returns the fields for which a check adds errors, in order.
func fieldsWithErrors(check func(*fleet.Checks)) []string {
	var c fleet.Checks
	check(&c)
	var fields []string
	if e, ok := errors.AsType[*fleet.Error](c.Err()); ok {
		for _, f := range e.Fields {
			fields = append(fields, f.Field)
		}
	}
	return fields
}

func TestVMSpecsAreValidated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*fleet.VMSpec)
		want   []string
	}{
		"valid":               {func(*fleet.VMSpec) {}, nil},
		"no CPU":              {func(s *fleet.VMSpec) { s.CPUs = 0 }, []string{"spec.cpus"}},
		"too many CPUs":       {func(s *fleet.VMSpec) { s.CPUs = fleet.MaxCPUs + 1 }, []string{"spec.cpus"}},
		"too little memory":   {func(s *fleet.VMSpec) { s.MemoryMiB = fleet.MinMemoryMiB - 1 }, []string{"spec.memoryMiB"}},
		"too much memory":     {func(s *fleet.VMSpec) { s.MemoryMiB = fleet.MaxMemoryMiB + 1 }, []string{"spec.memoryMiB"}},
		"no firmware":         {func(s *fleet.VMSpec) { s.Firmware = "" }, []string{"spec.firmware"}},
		"reported power":      {func(s *fleet.VMSpec) { s.Power = fleet.Crashed }, []string{"spec.power"}},
		"too many disks":      {func(s *fleet.VMSpec) { s.Disks = slices.Repeat(s.Disks, fleet.MaxDisks+1) }, []string{"spec.disks"}},
		"too many NICs":       {func(s *fleet.VMSpec) { s.NICs = slices.Repeat(s.NICs, fleet.MaxNICs+1) }, []string{"spec.nics"}},
		"disk without pool":   {func(s *fleet.VMSpec) { s.Disks[0].PoolID = "" }, []string{"spec.disks[0].poolId"}},
		"disk without size":   {func(s *fleet.VMSpec) { s.Disks[0].SizeBytes = 0 }, []string{"spec.disks[0].sizeBytes"}},
		"disk too large":      {func(s *fleet.VMSpec) { s.Disks[0].SizeBytes = fleet.MaxDiskBytes + 1 }, []string{"spec.disks[0].sizeBytes"}},
		"volume with a slash": {func(s *fleet.VMSpec) { s.Disks[0].Volume = "../shadow" }, []string{"spec.disks[0].volume"}},
		"size of the image": {func(s *fleet.VMSpec) {
			s.Disks[0].Image, s.Disks[0].SizeBytes = &fleet.Volref{PoolID: "p", Volume: "debian.qcow2"}, 0
		}, nil},
		"image without name":          {func(s *fleet.VMSpec) { s.Disks[0].Image = &fleet.Volref{PoolID: "p"} }, []string{"spec.disks[0].image.volume"}},
		"ISO without pool":            {func(s *fleet.VMSpec) { s.ISO = &fleet.Volref{Volume: "debian.iso"} }, []string{"spec.iso.poolId"}},
		"NIC without network":         {func(s *fleet.VMSpec) { s.NICs[0].Network = "" }, []string{"spec.nics[0].network"}},
		"NIC on network and bridge":   {func(s *fleet.VMSpec) { s.NICs[0].Bridge = "br0" }, []string{"spec.nics[0].network"}},
		"NIC on invalid network name": {func(s *fleet.VMSpec) { s.NICs[0].Network = "a/b" }, []string{"spec.nics[0].network"}},
		"NIC on invalid bridge name":  {func(s *fleet.VMSpec) { s.NICs[0] = fleet.NIC{Bridge: "a-name-that-is-too-long"} }, []string{"spec.nics[0].bridge"}},
		"multicast MAC address":       {func(s *fleet.VMSpec) { s.NICs[0].MAC = "01:00:5e:00:00:01" }, []string{"spec.nics[0].mac"}},
		"MAC address of 8 bytes":      {func(s *fleet.VMSpec) { s.NICs[0].MAC = "52:54:00:12:34:56:78:9a" }, []string{"spec.nics[0].mac"}},
		"several errors":              {func(s *fleet.VMSpec) { s.CPUs, s.Firmware = 0, "" }, []string{"spec.cpus", "spec.firmware"}},
	} {
		spec := fleet.VMSpec{
			Power: fleet.Running, CPUs: 2, MemoryMiB: 512, Firmware: fleet.UEFI,
			Disks: []fleet.Disk{{PoolID: "p", SizeBytes: 1 << 30}},
			NICs:  []fleet.NIC{{Network: "default", MAC: "52:54:00:12:34:56"}},
		}
		c.change(&spec)
		if got := fieldsWithErrors(func(checks *fleet.Checks) { spec.Check(checks, "spec") }); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
}

func TestPoolSpecsAreValidated(t *testing.T) {
	t.Parallel()
	nfs := fleet.PoolSpec{Kind: fleet.PoolNFS, Path: "/srv/vm", Server: "10.0.0.5", Export: "/exports/vm"}
	gluster := fleet.PoolSpec{Kind: fleet.PoolGluster, Path: "/srv/vm", Server: "gluster-1", Volume: "gv0"}
	device := fleet.PoolSpec{Kind: fleet.PoolFS, Path: "/srv/vm", Device: "/dev/disk/by-label/vm", Format: "xfs"}
	with := func(s fleet.PoolSpec, change func(*fleet.PoolSpec)) fleet.PoolSpec { change(&s); return s }
	for name, c := range map[string]struct {
		spec fleet.PoolSpec
		want []string
	}{
		"directory":                {fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/vm/"}, nil},
		"NFS":                      {nfs, nil},
		"NFS over IPv6":            {with(nfs, func(s *fleet.PoolSpec) { s.Server = "2001:db8::5" }), nil},
		"no kind":                  {fleet.PoolSpec{Path: "/srv/vm"}, []string{"spec.kind"}},
		"directory's server":       {fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/vm", Server: "nas"}, []string{"spec.server"}},
		"relative path":            {fleet.PoolSpec{Kind: fleet.PoolDir, Path: "srv/vm"}, []string{"spec.path"}},
		"path with ..":             {fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/../etc/vm"}, []string{"spec.path"}},
		"path of two lines":        {fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/\nvm"}, []string{"spec.path"}},
		"the root":                 {fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/"}, []string{"spec.path"}},
		"a system directory":       {fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/etc/"}, []string{"spec.path"}},
		"below a system directory": {with(nfs, func(s *fleet.PoolSpec) { s.Path = "/etc/ssh" }), []string{"spec.path"}},
		"the agent's key":          {fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/var/lib/quantix-agent"}, []string{"spec.path"}},
		"a person's keys":          {fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/home/ann/.ssh"}, []string{"spec.path"}},
		"libvirt's images":         {fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/var/lib/libvirt/images"}, nil},
		"NFS without server":       {with(nfs, func(s *fleet.PoolSpec) { s.Server = "" }), []string{"spec.server"}},
		"NFS server's option":      {with(nfs, func(s *fleet.PoolSpec) { s.Server = "-o" }), []string{"spec.server"}},
		"NFS without export":       {with(nfs, func(s *fleet.PoolSpec) { s.Export = "" }), []string{"spec.export"}},
		"GlusterFS":                {gluster, nil},
		"Gluster's option":         {with(gluster, func(s *fleet.PoolSpec) { s.Volume = "-o" }), []string{"spec.volume"}},
		"Gluster's path":           {with(gluster, func(s *fleet.PoolSpec) { s.Volume = "gv0/../x" }), []string{"spec.volume"}},
		"Gluster's export":         {with(gluster, func(s *fleet.PoolSpec) { s.Export = "/vm" }), []string{"spec.export"}},
		"a device":                 {device, nil},
		"no device":                {with(device, func(s *fleet.PoolSpec) { s.Device = "" }), []string{"spec.device"}},
		"a file as a device":       {with(device, func(s *fleet.PoolSpec) { s.Device = "/etc/shadow" }), []string{"spec.device"}},
		"a device with ..":         {with(device, func(s *fleet.PoolSpec) { s.Device = "/dev/../etc/shadow" }), []string{"spec.device"}},
		"a long device":            {with(device, func(s *fleet.PoolSpec) { s.Device = "/dev/" + strings.Repeat("a", 2000) }), []string{"spec.device"}},
		"another format":           {with(device, func(s *fleet.PoolSpec) { s.Format = "vfat" }), []string{"spec.format"}},
		"a shared device":          {with(device, func(s *fleet.PoolSpec) { s.Shared = true }), []string{"spec.shared"}},
		"an NFS device":            {with(nfs, func(s *fleet.PoolSpec) { s.Device = "/dev/sdb" }), []string{"spec.device"}},
		"a long description":       {with(nfs, func(s *fleet.PoolSpec) { s.Description = strings.Repeat("a", fleet.MaxDescription+1) }), []string{"spec.description"}},
		"a description with NUL":   {with(nfs, func(s *fleet.PoolSpec) { s.Description = "a\x00" }), []string{"spec.description"}},
	} {
		if got := fieldsWithErrors(func(checks *fleet.Checks) { c.spec.Check(checks, "spec") }); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
}

// A form without scripts sends the fields of all kinds of pools. WithoutFieldsOfOtherKinds keeps only the fields of the spec's kind.
func TestOfKindDropsFieldsOfOtherPoolKinds(t *testing.T) {
	t.Parallel()
	all := fleet.PoolSpec{Path: "/srv", Server: "s", Export: "/e", Volume: "v", Device: "/dev/d", Format: "xfs", Shared: true}
	for kind, want := range map[fleet.PoolKind]fleet.PoolSpec{
		fleet.PoolDir:     {Kind: fleet.PoolDir, Path: "/srv", Shared: true},
		fleet.PoolFS:      {Kind: fleet.PoolFS, Path: "/srv", Device: "/dev/d", Format: "xfs"},
		fleet.PoolNFS:     {Kind: fleet.PoolNFS, Path: "/srv", Server: "s", Export: "/e", Shared: true},
		fleet.PoolGluster: {Kind: fleet.PoolGluster, Path: "/srv", Server: "s", Volume: "v", Shared: true},
	} {
		spec := all
		spec.Kind = kind
		if got := spec.WithoutFieldsOfOtherKinds(); got != want {
			t.Errorf("%s: %+v, want %+v", kind, got, want)
		}
	}
}

func TestPoolPathInSystemDirectoryRefused(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		"/var/lib/libvirt/secrets", "/var/lib/libvirt/qemu/save", "/var/lib/quantix", "/var/lib/quantix/postgres", "/home", "/home/ann", "/home/ann/.config",
		"/root/vm", "/run/libvirt", "/var/run/vm", "/var/log/x", "/var/lib/postgresql/15/main", "/var/lib/docker/volumes", "/srv/x/.ssh", "/tmp",
	} {
		if got := fieldsWithErrors(func(c *fleet.Checks) { fleet.PoolSpec{Kind: fleet.PoolDir, Path: p}.Check(c, "spec") }); !slices.Equal(got, []string{"spec.path"}) {
			t.Errorf("%s: faults at %q", p, got)
		}
	}
	for _, p := range []string{"/srv", "/mnt/a", "/var/lib/libvirt/images/fast", "/data", "/home/ann/vm", "/vmdata", "/tmp/x/pool"} {
		if got := fieldsWithErrors(func(c *fleet.Checks) { fleet.PoolSpec{Kind: fleet.PoolDir, Path: p}.Check(c, "spec") }); got != nil {
			t.Errorf("%s: faults at %q", p, got)
		}
	}
}

func TestObjectAndUserNamesAreValidated(t *testing.T) {
	t.Parallel()
	object := func(name string) bool {
		return fieldsWithErrors(func(c *fleet.Checks) { fleet.CheckName(c, "name", name) }) == nil
	}
	user := func(name string) bool {
		return fieldsWithErrors(func(c *fleet.Checks) { fleet.CheckUserName(c, "name", name) }) == nil
	}
	for _, name := range []string{"a", "0", "web-1", "web.example", strings.Repeat("a", 63)} {
		if !object(name) || !user(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{"", "Web", "-web", "web-", "we b", "web\n", "wéb", strings.Repeat("a", 65)} {
		if object(name) || user(name) {
			t.Errorf("%q is accepted", name)
		}
	}
	if address := "mia_b@example.org"; object(address) || !user(address) {
		t.Errorf("%q must be valid as a user name and invalid as an object name", address)
	}
}

func TestLabelsAreValidated(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range fleet.MaxLabels + 1 {
		many["k"+strings.Repeat("a", i%60)+string(rune('a'+i%26))] = ""
	}
	for name, c := range map[string]struct {
		labels map[string]string
		ok     bool
	}{
		"none":                          {nil, true},
		"valid":                         {map[string]string{"env": "prod", "a-1": "", "team": "Ärzte & co"}, true},
		"upper-case key":                {map[string]string{"Env": ""}, false},
		"key with leading digit":        {map[string]string{"1a": ""}, false},
		"empty key":                     {map[string]string{"": ""}, false},
		"long key":                      {map[string]string{strings.Repeat("a", 64): ""}, false},
		"long value":                    {map[string]string{"a": strings.Repeat("a", 256)}, false},
		"value with line end":           {map[string]string{"a": "b\nc"}, false},
		"value of invalid UTF-8":        {map[string]string{"a": "\xff"}, false},
		"value with direction override": {map[string]string{"a": "b\u202ec"}, false},
		"value with zero-width space":   {map[string]string{"a": "b\u200bc"}, false},
		"too many":                      {many, false},
	} {
		if got := fieldsWithErrors(func(checks *fleet.Checks) { fleet.CheckLabels(checks, "labels", c.labels) }); (got == nil) != c.ok {
			t.Errorf("%s: faults at %q", name, got)
		}
	}
}

func TestDescriptionsAreValidated(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"": true, "Two lines.\r\n\tAnd more – Ärzte & co, 日本, 👩‍⚕️, \u200fעברית": true, "a\x00": false, "a\x1b[31m": false, "a\u202eb": false, "a\u2066b": false, "a\ufffeb": false, "\xff": false,
		strings.Repeat("a", fleet.MaxDescription): true, strings.Repeat("a", fleet.MaxDescription+1): false,
	} {
		if got := fieldsWithErrors(func(c *fleet.Checks) { fleet.CheckDescription(c, "description", text) }); (got == nil) != ok {
			t.Errorf("%.40q: faults at %q", text, got)
		}
	}
}

// Input may have any number of errors. A response lists only a limited number of them.
func TestNumberOfFieldErrorsIsBounded(t *testing.T) {
	t.Parallel()
	var c fleet.Checks
	for range 10_000 {
		c.Add("x", "Wrong.")
	}
	if e, ok := errors.AsType[*fleet.Error](c.Err()); !ok || len(e.Fields) != fleet.MaxFaults || e.Message != "10000 fields need a correction." {
		t.Errorf("%d fields: %v", len(e.Fields), e)
	}
	many := map[string]string{}
	for i := range 10_000 {
		many[strings.Repeat("A", 1+i%60)+string(rune('a'+i%26))+string(rune('a'+i/26%26))] = "\x00"
	}
	if got := fieldsWithErrors(func(c *fleet.Checks) { fleet.CheckLabels(c, "labels", many) }); len(got) != 1 {
		t.Errorf("too many labels give %d errors", len(got))
	}
}

func TestErrorCountsInvalidFields(t *testing.T) {
	t.Parallel()
	var c fleet.Checks
	if c.Err() != nil {
		t.Error("an error without invalid fields")
	}
	c.Add("name", "Enter a name.")
	if err := c.Err(); fleet.CodeOf(err) != fleet.Invalid || err.Error() != "Enter a name." {
		t.Errorf("one invalid field: %q", err)
	}
	c.Add("cpus", "Enter 1 to %d vCPUs.", 8)
	if err := c.Err(); err.Error() != "2 fields need a correction." {
		t.Errorf("two invalid fields: %q", err)
	}
}

func TestImageNameRefusesInvisibleCharacters(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"Debian 12": true, "Décembre (büro) – 日本": true, "": false, " Debian": false, "Debian\n12": false, strings.Repeat("a", 201): false,
		"Debian \u202e21 naibeD": false, "Debian\u200b 12": false, "Debian\u2066 12": false,
	} {
		if got := fieldsWithErrors(func(c *fleet.Checks) { fleet.CheckImageName(c, "name", name) }); (got == nil) != ok {
			t.Errorf("%q: faults at %q", name, got)
		}
	}
}

// Existing volumes and networks can be used under any name that libvirt and file systems allow. Only names of new
// objects are restricted.
func TestExistingVolumeAndNetworkNamesAccepted(t *testing.T) {
	t.Parallel()
	pool, valid := fleet.PoolID("01a21a8c-cc26-7000-aa3c-88400679f281"), func(change func(*fleet.VMSpec)) error {
		s := fleet.VMSpec{CPUs: 1, MemoryMiB: 512, Firmware: fleet.BIOS, Power: fleet.Stopped}
		change(&s)
		var c fleet.Checks
		s.Check(&c, "spec")
		return c.Err()
	}
	for name, ok := range map[string]bool{
		"Windows Server 2022 (x64).iso": true, "odd space & ü": true, "-x": true, "日本語": true, "unit:0:0:1": true, `a\b`: true, "": false, "..": false, ".x": false, "a/b": false, "a\nb": false, "\xff": false,
	} {
		for field, change := range map[string]func(*fleet.VMSpec){
			"iso": func(s *fleet.VMSpec) { s.ISO = &fleet.Volref{PoolID: pool, Volume: name} },
			"image": func(s *fleet.VMSpec) {
				s.Disks = []fleet.Disk{{PoolID: pool, SizeBytes: 1 << 30, Image: &fleet.Volref{PoolID: pool, Volume: name}}}
			},
			"existing": func(s *fleet.VMSpec) { s.Disks = []fleet.Disk{{PoolID: pool, Volume: name, Existing: true}} },
			"share": func(s *fleet.VMSpec) {
				s.Memory.Shared, s.Shares = true, []fleet.VMShare{{Tag: "src", Folder: fleet.Volref{PoolID: pool, Volume: name}}}
			},
		} {
			if err := valid(change); (err == nil) != ok {
				t.Errorf("%s %q: %v", field, name, err)
			}
		}
	}
	for name, ok := range map[string]bool{
		"odd space & ü": true, "--all": true, strings.Repeat("n", 129): true, "DEFAULT": true, "a:b": true, "": false, " ": false, "a/b": false, "a\x00": false, "a\u202eb": false, strings.Repeat("n", 256): false,
	} {
		if err := valid(func(s *fleet.VMSpec) { s.NICs = []fleet.NIC{{Network: name}} }); (err == nil) != ok {
			t.Errorf("the network %q: %v", name, err)
		}
	}
	for name, ok := range map[string]bool{"br0": true, "brücke": true, "br_0+": true, "br 0": false, "-rf": false, "a\u202eb": false, "a/b": false, "..": false, "a:b": false, strings.Repeat("b", 16): false} {
		if err := valid(func(s *fleet.VMSpec) { s.NICs = []fleet.NIC{{Bridge: name}} }); (err == nil) != ok {
			t.Errorf("the bridge %q: %v", name, err)
		}
	}
}

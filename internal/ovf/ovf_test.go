package ovf_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/ovf"
)

// good is a shortened descriptor that ovftool wrote.
const good = `<?xml version="1.0" encoding="UTF-8"?>
<Envelope vmw:buildId="build-1" xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData" xmlns:vmw="http://www.vmware.com/schema/ovf" xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData">
  <References><File ovf:href="disk.vmdk" ovf:id="file1" ovf:size="5"/></References>
  <DiskSection><Info>Disks</Info>
    <Disk ovf:capacity="16" ovf:capacityAllocationUnits="byte * 2^30" ovf:diskId="vmdisk1" ovf:fileRef="file1" ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized" ovf:populatedSize="1"/>
    <Disk ovf:capacity="2" ovf:capacityAllocationUnits="GigaBytes" ovf:diskId="vmdisk2" ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#sparse"/>
  </DiskSection>
  <NetworkSection><Info>Networks</Info><Network ovf:name="VM Network"><Description>x</Description></Network></NetworkSection>
  <VirtualSystem ovf:id="web"><Info>A machine</Info><Name>Web 01</Name>
    <OperatingSystemSection ovf:id="94" vmw:osType="ubuntu64Guest"><Info>The guest</Info><Description>Ubuntu Linux (64-bit)</Description></OperatingSystemSection>
    <VirtualHardwareSection><Info>Hardware</Info>
      <System><vssd:VirtualSystemType>vmx-14</vssd:VirtualSystemType></System>
      <Item><rasd:AllocationUnits>hertz * 10^6</rasd:AllocationUnits><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>2</rasd:VirtualQuantity></Item>
      <Item><rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>4096</rasd:VirtualQuantity></Item>
      <Item><rasd:InstanceID>3</rasd:InstanceID><rasd:ResourceSubType>VirtualSCSI</rasd:ResourceSubType><rasd:ResourceType>6</rasd:ResourceType></Item>
      <Item><rasd:InstanceID>4</rasd:InstanceID><rasd:ResourceType>5</rasd:ResourceType></Item>
      <Item><rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource><rasd:InstanceID>5</rasd:InstanceID><rasd:Parent>3</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>
      <Item><rasd:HostResource>/disk/vmdisk2</rasd:HostResource><rasd:InstanceID>6</rasd:InstanceID><rasd:Parent>4</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>
      <Item><rasd:Connection>VM Network</rasd:Connection><rasd:InstanceID>7</rasd:InstanceID><rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType><rasd:ResourceType>10</rasd:ResourceType></Item>
      <Item ovf:required="false"><rasd:InstanceID>8</rasd:InstanceID><rasd:ResourceType>15</rasd:ResourceType></Item>
      <vmw:Config ovf:required="false" vmw:key="firmware" vmw:value="efi"/>
    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>`

type entry struct {
	tar.Header
	text string
}

func plainEntry(name, text string) entry { return entry{tar.Header{Name: name}, text} }

func buildArchive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.Header
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			h.Size = int64(len(e.text))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func manifestOf(files ...string) string {
	var b strings.Builder
	for i := 0; i < len(files); i += 2 {
		fmt.Fprintf(&b, "SHA256(%s)= %x\n", files[i], sha256.Sum256([]byte(files[i+1])))
	}
	return b.String()
}

func readArchiveBytes(text []byte) (fleet.Appliance, ovf.Archive, error) {
	return ovf.Read(bytes.NewReader(text), int64(len(text)))
}

func TestOVAParsedIntoAppliance(t *testing.T) {
	text := buildArchive(t, plainEntry("web.ovf", good), plainEntry("web.mf", manifestOf("web.ovf", good, "disk.vmdk", "12345")), plainEntry("disk.vmdk", "12345"))
	a, files, err := readArchiveBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	want := fleet.Appliance{
		Name: "Web 01", OS: "Ubuntu Linux (64-bit)", Family: "linux", CPUs: 2, MemoryMiB: 4096, Firmware: fleet.UEFI, ChecksumAlgorithm: "SHA256",
		Disks: []fleet.ApplianceDisk{
			{Member: "disk.vmdk", Format: "vmdk", SizeBytes: 16 << 30, FileBytes: 5, Controller: "pvscsi"}, {SizeBytes: 2 << 30, Controller: "ide"},
		},
		NICs:        []fleet.ApplianceNIC{{Network: "VM Network", Model: "vmxnet3"}},
		NotImported: []string{"A CD drive with its disc: insert a disc into the VM's drive afterwards."},
	}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("got\n%+v, want\n%+v", a, want)
	}
	for _, f := range files.Files {
		if got := string(text[f.Offset : f.Offset+f.Size]); got != "12345" {
			t.Errorf("%s is %q", f.Name, got)
		}
		if err := files.Verify(t.Context(), bytes.NewReader(text), f, func(int64) {}); err != nil {
			t.Error(err)
		}
	}
	if a.VMName("x.ova") != "web-01" || a.DiskBus(a.Disks[0]) != "" || a.DiskBus(a.Disks[1]) != "sata" || len(a.RequiredDrivers()) != 4 {
		t.Errorf("name %s, drivers %q", a.VMName("x.ova"), a.RequiredDrivers())
	}
}

func TestChangedFileFailsVerification(t *testing.T) {
	text := buildArchive(t, plainEntry("web.ovf", good), plainEntry("disk.vmdk", "12345"), plainEntry("web.mf", fmt.Sprintf("SHA1(web.ovf)= %x\nSHA1(disk.vmdk)= %x\n", sha1.Sum([]byte(good)), sha1.Sum([]byte("1234x")))))
	_, files, err := readArchiveBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := files.Verify(t.Context(), bytes.NewReader(text), files.Descriptor, func(int64) {}); err != nil {
		t.Error(err)
	}
	if err := files.Verify(t.Context(), bytes.NewReader(text), files.Files[0], func(int64) {}); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("changed file: %v", err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := files.Verify(ended, bytes.NewReader(text), files.Files[0], func(int64) {}); err == nil {
		t.Error("Verify continued after cancellation")
	}
}

// Each invalid archive is refused with its own error text.
func TestInvalidArchivesAreRefused(t *testing.T) {
	d, disk := plainEntry("web.ovf", good), plainEntry("disk.vmdk", "12345")
	whole := buildArchive(t, d, disk)
	var many []entry
	for i := range ovf.MaxFiles {
		many = append(many, plainEntry(fmt.Sprintf("f%d", i), ""))
	}
	for name, c := range map[string]struct {
		text    []byte
		message string
	}{
		"an empty file":                      {nil, "is empty"},
		"only zeros":                         {make([]byte, 4096), "is empty"},
		"not a tar archive":                  {[]byte(strings.Repeat("no tar archive ", 100)), "not a complete tar"},
		"cut off in a disk":                  {whole[:len(whole)-1024-512], "ends before|not a complete tar"},
		"cut off in a header":                {whole[:200], "not a complete tar"},
		"a name with ..":                     {buildArchive(t, d, plainEntry("../disk.vmdk", "12345")), "outside"},
		"a name with several ..":             {buildArchive(t, d, plainEntry("../../../../etc/cron.d/x", "12345")), "outside"},
		"an absolute name":                   {buildArchive(t, d, plainEntry("/etc/passwd", "12345")), "outside"},
		"a file in a directory":              {buildArchive(t, d, plainEntry("x/disk.vmdk", "12345")), "outside"},
		"a Windows name":                     {buildArchive(t, d, plainEntry(`..\disk.vmdk`, "12345")), "outside"},
		"a hidden file":                      {buildArchive(t, d, plainEntry(".bashrc", "12345")), "outside"},
		"a name like an option":              {buildArchive(t, d, plainEntry("-rf", "12345")), "outside"},
		"a name with a line break":           {buildArchive(t, d, plainEntry("a\nb", "12345")), "cannot be seen"},
		"a name with bidirectional controls": {buildArchive(t, d, plainEntry("a\u202eb", "12345")), "cannot be seen"},
		"a long name":                        {buildArchive(t, d, plainEntry(strings.Repeat("a", 300), "12345")), "too long"},
		"a symbolic link":                    {buildArchive(t, d, entry{tar.Header{Name: "disk.vmdk", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}, ""}), "link"},
		"a hard link":                        {buildArchive(t, d, entry{tar.Header{Name: "disk.vmdk", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}, ""}), "link"},
		"a device":                           {buildArchive(t, d, entry{tar.Header{Name: "disk.vmdk", Typeflag: tar.TypeBlock, Devmajor: 8}, ""}), "device"},
		"a pipe":                             {buildArchive(t, d, entry{tar.Header{Name: "disk.vmdk", Typeflag: tar.TypeFifo}, ""}), "device"},
		"a directory":                        {buildArchive(t, d, entry{tar.Header{Name: "disk.vmdk", Typeflag: tar.TypeDir}, ""}), "directory|outside"},
		"duplicate file names":               {buildArchive(t, d, disk, disk), "twice"},
		"names that differ in case":          {buildArchive(t, d, disk, plainEntry("DISK.vmdk", "1")), "twice"},
		"two descriptors":                    {buildArchive(t, d, plainEntry("x.ovf", good), disk), "two descriptors"},
		"two manifests":                      {buildArchive(t, d, plainEntry("a.mf", ""), plainEntry("b.mf", "")), "two manifests"},
		"the descriptor last":                {buildArchive(t, disk, d), "does not begin"},
		"too many files":                     {buildArchive(t, append([]entry{d}, many...)...), "more than 64 files"},
		"a global record":                    {buildArchive(t, d, entry{tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "x"}}, ""}), "link|empty|record"},
		"an unknown record":                  {buildArchive(t, d, entry{tar.Header{Name: "disk.vmdk", PAXRecords: map[string]string{"SCHILY.xattr.user.x": "1"}}, "12345"}), "record"},
		"a descriptor over the limit":        {buildArchive(t, plainEntry("web.ovf", good+strings.Repeat(" ", ovf.MaxDescriptor)), disk), "more than 4 MiB"},
		"a manifest over the limit":          {buildArchive(t, d, disk, plainEntry("x.mf", strings.Repeat("\n", ovf.MaxManifest+1))), "more than 1024 KiB"},
		"a manifest with other text":         {buildArchive(t, d, disk, plainEntry("x.mf", "hello")), "no checksum"},
		"a checksum that is too short":       {buildArchive(t, d, disk, plainEntry("x.mf", "SHA256(web.ovf)= 00")), "no checksum"},
		"an unknown algorithm":               {buildArchive(t, d, disk, plainEntry("x.mf", "MD5(web.ovf)= 00")), "no checksum"},
		"a manifest of a missing file":       {buildArchive(t, d, disk, plainEntry("x.mf", manifestOf("other", "1"))), "not in the archive"},
		"a manifest of a file elsewhere":     {buildArchive(t, d, disk, plainEntry("x.mf", manifestOf("/etc/shadow", "1"))), "not in the archive"},
		"two checksums of one file":          {buildArchive(t, d, disk, plainEntry("x.mf", manifestOf("web.ovf", good, "web.ovf", good, "disk.vmdk", "12345"))), "two checksums"},
		"a manifest without the disk":        {buildArchive(t, d, disk, plainEntry("x.mf", manifestOf("web.ovf", good))), "no checksum of disk.vmdk"},
	} {
		_, _, err := readArchiveBytes(c.text)
		checkRefused(t, name, err, c.message)
	}
}

func checkRefused(t *testing.T, name string, err error, message string) {
	t.Helper()
	for word := range strings.SplitSeq(message, "|") {
		if fleet.CodeOf(err) == fleet.Invalid && strings.Contains(err.Error(), word) {
			return
		}
	}
	t.Errorf("%s: %v, want a refusal with %q", name, err, message)
}

// Sparse files of GNU and PAX are refused: a small archive could expand to a huge file.
func TestSparseFilesAreRefused(t *testing.T) {
	for _, name := range []string{"gnu-sparse.tar", "pax-sparse.tar"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = readArchiveBytes(text)
		checkRefused(t, name, err, "sparse")
	}
}

// Each invalid descriptor is refused with its own error text. It differs from the valid descriptor in one place.
func TestInvalidDescriptorsAreRefused(t *testing.T) {
	files := []ovf.File{{Name: "disk.vmdk", Size: 5}, {Name: "second.vmdk", Size: 1}}
	item := func(text string) string { return "<Item>" + text + "</Item>\n      <vmw:Config" }
	kind := func(n, more string) string {
		return item("<rasd:InstanceID>99</rasd:InstanceID><rasd:ResourceType>" + n + "</rasd:ResourceType>" + more)
	}
	const config = "<vmw:Config"
	for name, c := range map[string]struct{ old, new, message string }{
		"an external entity":                    {`<Envelope`, `<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/shadow">]><Envelope`, "DOCTYPE"},
		"an entity bomb":                        {`<Envelope`, `<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><Envelope`, "DOCTYPE"},
		"an undeclared entity":                  {`Web 01`, `&secret;`, "not valid XML"},
		"a style sheet":                         {`<Envelope`, `<?xml-stylesheet href="http://x"?><Envelope`, "processing instruction"},
		"another charset":                       {`UTF-8`, `UTF-16`, "no byte order mark"},
		"a missing end tag":                     {`</Envelope>`, ``, "not valid XML"},
		"a second root":                         {`</Envelope>`, `</Envelope><x/>`, "after its envelope"},
		"text after the envelope":               {`</Envelope>`, `</Envelope>x`, "outside of its envelope"},
		"an unknown namespace":                  {`xmlns="http://schemas.dmtf.org/ovf/envelope/1"`, `xmlns="http://example.org/x"`, "no version of OVF"},
		"no namespace":                          {`xmlns="http://schemas.dmtf.org/ovf/envelope/1"`, ``, "no version of OVF"},
		"too deep nesting":                      {`Web 01`, strings.Repeat("<a>", 40) + strings.Repeat("</a>", 40), "nested deeper"},
		"too many elements":                     {`Web 01`, strings.Repeat("<a/>", 20001), "more than 20000 elements"},
		"too many attributes":                   {`<Name>`, `<Name ` + manyAttributes(70) + `>`, "more than 64 attributes"},
		"a NUL":                                 {`Web 01`, "a\x00b", "not valid XML"},
		"no UTF-8":                              {`Web 01`, "a\xffb", "not valid XML"},
		"no machine":                            {`VirtualSystem `, `OtherSystem `, "not valid XML"},
		"two machines":                          {`</VirtualSystem>`, `</VirtualSystem><VirtualSystem ovf:id="b"/>`, "2 machines"},
		"collections in collections":            {`<DiskSection>`, `<VirtualSystemCollection><VirtualSystemCollection/></VirtualSystemCollection><DiskSection>`, "collections"},
		"no hardware":                           {`<VirtualHardwareSection>`, `<VirtualHardwareSection/><VirtualHardwareSection>`, "2 hardware sections"},
		"a remote file":                         {`href="disk.vmdk"`, `href="http://169.254.169.254/disk.vmdk"`, "Nothing is fetched"},
		"a file of the host":                    {`href="disk.vmdk"`, `href="/etc/shadow"`, "no file of the archive"},
		"a file with ..":                        {`href="disk.vmdk"`, `href="../disk.vmdk"`, "no file of the archive"},
		"a missing file":                        {`href="disk.vmdk"`, `href="other.vmdk"`, "not in the archive"},
		"a file of another size":                {`ovf:size="5"`, `ovf:size="6"`, "incomplete"},
		"a compressed file":                     {`ovf:size="5"`, `ovf:compression="gzip"`, "packed"},
		"a chunked file":                        {`ovf:size="5"`, `ovf:chunkSize="100"`, "pieces"},
		"duplicate reference IDs":               {`</References>`, `<File ovf:id="file1" ovf:href="second.vmdk"/></References>`, "two of the id"},
		"a reference without an id":             {`ovf:id="file1"`, ``, "without an id"},
		"a disk with an unknown file":           {`ovf:fileRef="file1"`, `ovf:fileRef="file9"`, "does not refer"},
		"a disk with a parent":                  {`ovf:fileRef="file1"`, `ovf:fileRef="file1" ovf:parentRef="vmdisk2"`, "without snapshots"},
		"two disks in one file":                 {`ovf:diskId="vmdisk2"`, `ovf:diskId="vmdisk2" ovf:fileRef="file1"`, "same file"},
		"duplicate disk IDs":                    {`ovf:diskId="vmdisk2"`, `ovf:diskId="vmdisk1"`, "twice"},
		"a disk of unknown format":              {`vmdk.html#streamOptimized`, `tape`, "has the format"},
		"a disk without a size":                 {`ovf:capacity="16"`, ``, "no quantity"},
		"a disk of negative size":               {`ovf:capacity="16"`, `ovf:capacity="-16"`, "no quantity"},
		"a disk whose size is a property":       {`ovf:capacity="16"`, `ovf:capacity="${disk.size}"`, "no quantity"},
		"a disk of 2^99 bytes":                  {`byte * 2^30`, `byte * 2^99`, "no quantity"},
		"a disk that is too large":              {`ovf:capacity="16"`, `ovf:capacity="100000"`, "no disk here"},
		"a disk of size 0":                      {`ovf:capacity="16"`, `ovf:capacity="0"`, "no disk here"},
		"an unknown unit":                       {`byte * 2^30`, `bananas`, "no quantity"},
		"a device of the host":                  {`ovf:/disk/vmdisk1`, `/dev/sda`, "own disk section"},
		"a file as a disk":                      {`ovf:/disk/vmdisk1`, `ovf:/file/file1`, "own disk section"},
		"an undeclared disk":                    {`ovf:/disk/vmdisk1`, `ovf:/disk/vmdisk9`, "does not describe"},
		"a device with two disks":               {`<rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource>`, `<rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource><rasd:HostResource>x</rasd:HostResource>`, "several"},
		"a device type that is not a number":    {`<rasd:ResourceType>15<`, `<rasd:ResourceType>x<`, "no number"},
		"no vCPUs":                              {`<rasd:VirtualQuantity>2<`, `<rasd:VirtualQuantity>0<`, "no machine here"},
		"too many vCPUs":                        {`<rasd:VirtualQuantity>2<`, `<rasd:VirtualQuantity>100000<`, "no machine here"},
		"a vCPU count that overflows":           {`<rasd:VirtualQuantity>2<`, `<rasd:VirtualQuantity>99999999999999999999<`, "no quantity"},
		"two vCPU counts":                       {config, kind("3", "<rasd:VirtualQuantity>2</rasd:VirtualQuantity>"), "twice"},
		"too much memory":                       {`>4096<`, `>40960000000<`, "no machine here|no quantity"},
		"two memory sizes":                      {config, kind("4", "<rasd:VirtualQuantity>2</rasd:VirtualQuantity>"), "twice"},
		"a NIC on an undeclared network":        {config, kind("10", "<rasd:Connection>Other</rasd:Connection>"), "none of its networks"},
		"too many NICs":                         {config, strings.Repeat(strings.TrimSuffix(kind("10", ""), config), 17) + config, "NICs"},
		"too many devices":                      {config, strings.Repeat(strings.TrimSuffix(kind("35", ""), config), 300) + config, "256 devices"},
		"a duplicate disk among too many disks": {config, strings.Repeat(strings.TrimSuffix(kind("17", "<rasd:HostResource>ovf:/disk/vmdisk2</rasd:HostResource>"), config), 30) + config, "disks"},
	} {
		if !strings.Contains(good, c.old) {
			t.Fatalf("%s: %q is not in the descriptor", name, c.old)
		}
		_, err := ovf.Parse([]byte(strings.Replace(good, c.old, c.new, 1)), files)
		checkRefused(t, name, err, c.message)
	}
	if _, err := ovf.Parse(nil, nil); err == nil {
		t.Error("an empty descriptor was accepted")
	}
}

func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `a%d="" `, i)
	}
	return b.String()
}

// memoryFile is an archive in memory, for writing.
type memoryFile struct{ b []byte }

func (m *memoryFile) WriteAt(p []byte, at int64) (int, error) {
	if need := int(at) + len(p); need > len(m.b) {
		m.b = append(m.b, make([]byte, need-len(m.b))...)
	}
	return copy(m.b[at:], p), nil
}

func writeArchive(t testing.TB, a fleet.Appliance, disks ...string) []byte {
	t.Helper()
	var sums []string
	p := ovf.NewArchivePlan(a)
	to := &memoryFile{}
	for i, text := range disks {
		header, data := p.NextOffsets()
		h, err := ovf.TarHeader(a.Disks[i].Member, int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = to.WriteAt(h, header)
		_, _ = to.WriteAt([]byte(text), data)
		p.AddFile(int64(len(text)))
		a.Disks[i].FileBytes = int64(len(text))
		sums = append(sums, fmt.Sprintf("%x", sha256.Sum256([]byte(text))))
	}
	_, _ = to.WriteAt(make([]byte, 1), p.Size()-1)
	if err := p.WriteHead(to, a, sums); err != nil {
		t.Fatal(err)
	}
	return to.b
}

func TestOVARoundTripPreservesAppliance(t *testing.T) {
	for _, a := range []fleet.Appliance{
		{
			Name: "web-1", OS: "Debian 12 <&\"'>", Family: "linux", CPUs: 4, MemoryMiB: 2048, Firmware: fleet.UEFI, ChecksumAlgorithm: "SHA256",
			Disks: []fleet.ApplianceDisk{
				{Member: "web-1-disk1.vmdk", Format: "vmdk", SizeBytes: 10 << 30, FileBytes: 7, Controller: "pvscsi"},
				{Member: "web-1-disk2.vmdk", Format: "vmdk", SizeBytes: 1 << 20, FileBytes: 513, Controller: "sata"},
			},
			NICs: []fleet.ApplianceNIC{{Network: "lan 100% <&>", Model: "vmxnet3"}, {Network: "dmz", Model: "e1000e"}, {Model: "virtio"}},
		},
		{Name: "win", OS: "Windows Server 2022", Family: "windows", CPUs: 1, MemoryMiB: 512, Firmware: fleet.BIOS, ChecksumAlgorithm: "SHA256"},
	} {
		text := writeArchive(t, a, []string{"content", strings.Repeat("x", 513)}[:len(a.Disks)]...)
		got, files, err := readArchiveBytes(text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, a) {
			t.Errorf("got\n%+v, want\n%+v", got, a)
		}
		for _, f := range append(files.Files, files.Descriptor) {
			if err := files.Verify(t.Context(), bytes.NewReader(text), f, func(int64) {}); err != nil {
				t.Error(err)
			}
		}
	}
}

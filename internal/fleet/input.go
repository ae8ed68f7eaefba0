package fleet

// Input is how a form asks for a field. What a form asks for otherwise has none.
type Input struct {
	Section  Section
	Label    string
	Help     string
	Options  []Option // of a choice; of a text they are proposals
	Kind     InputKind
	Unit     string // of a number
	Usual    int    // what no number means, where that is one
	Named    string // a name by which the default of a choice may be given, too: "virtio"
	Example  string // what stands where nothing does; empty: what that means
	Rows     []Row  // of each of several, the fields that it has
	Reserved string // of a row's field: see Field.Reserved
}

// Row is a field of one of several, as a form asks for it.
type Row struct {
	Name  string
	Input Input
}

// InputKind is what a field is typed as.
type InputKind int

// The kinds of them.
const (
	InputNumber InputKind = iota
	InputFlag
	InputChoice
	InputText   // proposals, and what else is typed
	InputMedium // a volume for a drive
	InputFile   // a volume that is a plain file
	InputPool
	InputRows // several, each with fields of its own
)

// Option is a value that a field can have, and its words.
type Option struct{ Value, Text string }

// Section is a heading of a VM's form.
type Section string

// The sections, in the order in which a form has them.
const (
	SectionCPU      Section = "CPU"
	SectionMemory   Section = "Memory"
	SectionBoot     Section = "Boot"
	SectionDisplay  Section = "Display and input"
	SectionSecurity Section = "Security"
	SectionDevices  Section = "Other devices"
	SectionPower    Section = "Start and stop"
	SectionMoves    Section = "Moves"
)

// VMSections lists them.
var VMSections = []Section{SectionCPU, SectionMemory, SectionBoot, SectionDisplay, SectionSecurity, SectionDevices, SectionPower, SectionMoves}

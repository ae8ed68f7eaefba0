package fleet

// Input describes the form input of a field. Section is empty if the form has a special input for the field.
type Input struct {
	Section     Section
	Label       string
	Help        string
	Options     []Option // values of a choice; proposals for a text
	Kind        InputKind
	Unit        string // unit of a number
	Default     int    // value of an empty number input; 0: no default number
	DefaultName string // accepted name of the choice's default: "virtio"
	Example     string // placeholder; empty: the default
	Rows        []Row  // input fields of each list element
	Reserved    string // for a row's field: see Field.Reserved
}

// Row is one input field of a list element.
type Row struct {
	Name  string
	Input Input
}

// InputKind is the kind of input control.
type InputKind int

// Kinds of input controls.
const (
	InputNumber InputKind = iota
	InputFlag
	InputChoice
	InputText   // free text with proposals
	InputMedium // a volume for a drive
	InputFile   // a volume that is a plain file
	InputPool
	InputRows // list elements, each with fields of its own
)

// Option is a possible value of a field with its text.
type Option struct{ Value, Text string }

// Section is a section heading of the VM form.
type Section string

// Sections of the VM form.
const (
	SectionCPU       Section = "CPU"
	SectionMemory    Section = "Memory"
	SectionBoot      Section = "Boot"
	SectionDisplay   Section = "Display and input"
	SectionSecurity  Section = "Security"
	SectionDevices   Section = "Other devices"
	SectionPower     Section = "Start and stop"
	SectionMigration Section = "Migration"
)

// VMSections lists the sections in form order.
var VMSections = []Section{SectionCPU, SectionMemory, SectionBoot, SectionDisplay, SectionSecurity, SectionDevices, SectionPower, SectionMigration}

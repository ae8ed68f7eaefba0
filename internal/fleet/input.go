package fleet

// FormInput describes the form input of a field. Section is empty if the form has a special input for the field.
type FormInput struct {
	Section     FormSection
	Label       string
	Help        string
	Options     []Option // values of a choice; proposals for a text
	Kind        InputKind
	Unit        string     // unit of a number
	CountUnit   string     // what a number without Unit counts, in the singular: "vCPU"; empty: nothing
	Default     int        // value of an empty number input; 0: no default number
	DefaultName string     // accepted name of the choice's default: "virtio"
	Example     string     // placeholder; empty: the default
	Rows        []InputRow // input fields of each list element
	Reserved    string     // for a row's field: see Field.Reserved
}

// InputRow is one input field of a list element.
type InputRow struct {
	Name  string
	Input FormInput
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
	InputDeviceClass
	InputRows // list elements, each with fields of its own
)

// Option is a possible value of a field with its text.
type Option struct{ Value, Text string }

// FormSection is a section heading of the VM form.
type FormSection string

// Sections of the VM form.
const (
	SectionCPU       FormSection = "CPU"
	SectionMemory    FormSection = "Memory"
	SectionBoot      FormSection = "Boot"
	SectionDisplay   FormSection = "Display and input"
	SectionSecurity  FormSection = "Security"
	SectionDevices   FormSection = "Other devices"
	SectionPower     FormSection = "Start and stop"
	SectionMigration FormSection = "Migration"
)

// VMSections lists the sections in form order.
var VMSections = []FormSection{SectionCPU, SectionMemory, SectionBoot, SectionDisplay, SectionSecurity, SectionDevices, SectionPower, SectionMigration}

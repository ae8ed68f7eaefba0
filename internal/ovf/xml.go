package ovf

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
)

// namespaces are the XML namespaces of the envelope in OVF 0.9, 1.x and 2.x.
var namespaces = []string{
	"http://schemas.dmtf.org/ovf/envelope/1", "http://schemas.dmtf.org/ovf/envelope/2", "http://www.vmware.com/schema/ovf/1/envelope",
}

type envelope struct {
	XMLName     xml.Name           `xml:"Envelope"`
	Files       []reference        `xml:"References>File"`
	Disks       []disk             `xml:"DiskSection>Disk"`
	Networks    []network          `xml:"NetworkSection>Network"`
	Options     []deploymentOption `xml:"DeploymentOptionSection>Configuration"`
	Systems     []system           `xml:"VirtualSystem"`
	Collections []collection       `xml:"VirtualSystemCollection"`
	Sections    []anySection       `xml:",any"`
}

type collection struct {
	Systems []system     `xml:"VirtualSystem"`
	Nested  []collection `xml:"VirtualSystemCollection"`
}

type reference struct {
	ID          string `xml:"id,attr"`
	Href        string `xml:"href,attr"`
	Size        string `xml:"size,attr"`
	Compression string `xml:"compression,attr"`
	ChunkSize   string `xml:"chunkSize,attr"`
}

type disk struct {
	ID       string `xml:"diskId,attr"`
	File     string `xml:"fileRef,attr"`
	Capacity string `xml:"capacity,attr"`
	Units    string `xml:"capacityAllocationUnits,attr"`
	Format   string `xml:"format,attr"`
	Parent   string `xml:"parentRef,attr"`
}

type network struct {
	Name string `xml:"name,attr"`
}

type deploymentOption struct {
	ID      string `xml:"id,attr"`
	Default string `xml:"default,attr"`
	Label   string `xml:"Label"`
}

type system struct {
	ID       string     `xml:"id,attr"`
	Name     string     `xml:"Name"`
	OS       *osSection `xml:"OperatingSystemSection"`
	Products []product  `xml:"ProductSection"`
	Hardware []hardware `xml:"VirtualHardwareSection"`
	// VirtualBox is VirtualBox's own description of the VM.
	VirtualBox []vboxMachine `xml:"http://www.virtualbox.org/ovf/machine Machine"`
	Sections   []anySection  `xml:",any"`
}

type vboxMachine struct {
	Firmware struct {
		Type string `xml:"type,attr"` // BIOS, EFI, EFI32, EFI64 or EFIDUAL
	} `xml:"Hardware>Firmware"`
}

type anySection struct {
	XMLName xml.Name
}

type osSection struct {
	ID          string `xml:"id,attr"`
	Type        string `xml:"osType,attr"`
	Description string `xml:"Description"`
}

type product struct {
	Product    string     `xml:"Product"`
	Vendor     string     `xml:"Vendor"`
	Version    string     `xml:"Version"`
	Properties []property `xml:"Property"`
}

type property struct {
	Key string `xml:"key,attr"`
}

type hardware struct {
	System  virtualSystemSettings `xml:"System"`
	Items   []hardwareItem        `xml:"Item"`
	Storage []hardwareItem        `xml:"StorageItem"`
	Ports   []hardwareItem        `xml:"EthernetPortItem"`
	Config  []configEntry         `xml:"Config"`
	Extra   []configEntry         `xml:"ExtraConfig"`
}

type virtualSystemSettings struct {
	Type string `xml:"VirtualSystemType"`
}

type configEntry struct {
	Key   string `xml:"key,attr"`
	Value string `xml:"value,attr"`
}

type hardwareItem struct {
	Bound         string   `xml:"bound,attr"`
	Configuration string   `xml:"configuration,attr"`
	Required      string   `xml:"required,attr"`
	Type          string   `xml:"ResourceType"`
	SubType       string   `xml:"ResourceSubType"`
	Name          string   `xml:"ElementName"`
	Instance      string   `xml:"InstanceID"`
	Parent        string   `xml:"Parent"`
	Address       string   `xml:"Address"`
	At            string   `xml:"AddressOnParent"`
	Quantity      string   `xml:"VirtualQuantity"`
	Units         string   `xml:"AllocationUnits"`
	Host          []string `xml:"HostResource"`
	Connection    []string `xml:"Connection"`
}

// decodeDescriptor parses a descriptor. DOCTYPEs, processing instructions and entities other than XML's own are errors.
func decodeDescriptor(text []byte) (envelope, error) {
	var out envelope
	if len(text) > MaxDescriptor {
		return out, invalidError("The descriptor has more than %d MiB.", MaxDescriptor>>20)
	}
	text, err := toUTF8(text)
	if err != nil {
		return out, err
	}
	if err := checkXMLBounds(text); err != nil {
		return out, err
	}
	if err := decoder(text).Decode(&out); err != nil {
		return out, invalidXMLError(err)
	}
	if !slices.Contains(namespaces, out.XMLName.Space) {
		return out, invalidError("The descriptor's envelope is of %q, which is no version of OVF that is known.", cleanLine(out.XMLName.Space))
	}
	return out, nil
}

func invalidXMLError(err error) error {
	return invalidError("The descriptor is not valid XML: %s.", cleanLine(strings.TrimPrefix(err.Error(), "XML ")))
}

// decoder returns a decoder for UTF-8 text. It ignores the encoding in the XML declaration.
func decoder(text []byte) *xml.Decoder {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	return d
}

func checkXMLBounds(text []byte) error {
	d := decoder(text)
	depth, elements, roots := 0, 0, 0
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return invalidXMLError(err)
		}
		switch token := token.(type) {
		case xml.Directive:
			return invalidError("The descriptor has a DOCTYPE, or another directive. Entities other than XML's own are not accepted.")
		case xml.ProcInst:
			if token.Target != "xml" || elements > 0 {
				return invalidError("The descriptor has the processing instruction %q.", cleanLine(token.Target))
			}
		case xml.StartElement:
			if depth == 0 {
				roots++
			}
			depth++
			elements++
			switch {
			case roots > 1:
				return invalidError("The descriptor has something after its envelope.")
			case depth > maxDepth:
				return invalidError("The descriptor's elements are nested deeper than %d.", maxDepth)
			case elements > maxElements:
				return invalidError("The descriptor has more than %d elements.", maxElements)
			case len(token.Attr) > maxAttributes:
				return invalidError("An element of the descriptor has more than %d attributes.", maxAttributes)
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			if depth == 0 && len(bytes.TrimSpace(token)) > 0 {
				return invalidError("The descriptor has text outside of its envelope.")
			}
		}
	}
	if roots == 0 {
		return invalidError("The descriptor is empty.")
	}
	return nil
}

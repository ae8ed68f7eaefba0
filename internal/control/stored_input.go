package control

import "encoding/json"

// storedTaskInput is user input stored until its task has run. The input is encrypted if it contains first-boot data,
// because that may contain secrets.
type storedTaskInput struct {
	Plain  json.RawMessage `json:"plain,omitempty"`
	Key    string          `json:"key,omitempty"`
	Sealed []byte          `json:"sealed,omitempty"`
}

// encodeInput encodes v as JSON, encrypted if secret is set. Encrypted input can be decrypted only with the same label,
// which identifies its row.
func (s secretSealer) encodeInput(label string, v any, secret bool) (out []byte, err error) {
	var k storedTaskInput
	if secret {
		k.Key, k.Sealed, err = s.sealJSON(label, v)
	} else {
		k.Plain, err = json.Marshal(v)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(k)
}

// decodeInput decodes the output of encodeInput.
func (s secretSealer) decodeInput(label string, text []byte, into any) error {
	var k storedTaskInput
	if err := json.Unmarshal(text, &k); err != nil {
		return err
	}
	if len(k.Sealed) > 0 {
		return s.openJSON(label, k.Key, k.Sealed, into)
	}
	return json.Unmarshal(k.Plain, into)
}

package control

import "encoding/json"

// kept is how what somebody asked for is kept until it is done: sealed where it holds a first boot, which may have secrets in it.
type kept struct {
	Plain  json.RawMessage `json:"plain,omitempty"`
	Key    string          `json:"key,omitempty"`
	Sealed []byte          `json:"sealed,omitempty"`
}

// keepAs writes v for the row that the label names: sealed, it is read from no other.
func (s sealer) keepAs(label string, v any, secret bool) (out []byte, err error) {
	var k kept
	if secret {
		k.Key, k.Sealed, err = s.seal(label, v)
	} else {
		k.Plain, err = json.Marshal(v)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(k)
}

// keptAs reads what keepAs has written.
func (s sealer) keptAs(label string, text []byte, into any) error {
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return err
	}
	if len(k.Sealed) > 0 {
		return s.open(label, k.Key, k.Sealed, into)
	}
	return json.Unmarshal(k.Plain, into)
}

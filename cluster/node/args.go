package node

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// decode reads the arguments of a step. A field that the kind does not know
// means that the plan was made by another sealer.
func decode(args json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return nil
}

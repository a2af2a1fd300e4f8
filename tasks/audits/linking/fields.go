package linking

// Fields is written below.
type Fields struct{ Linking *Block }

// Block of the audit's fields.
type Block struct{}

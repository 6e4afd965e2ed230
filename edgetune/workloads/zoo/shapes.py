"""Sizes of the networks' inputs that both the table of networks and their definitions need."""

BERT_SEQUENCE = 128
BERT_VOCABULARY = 30522

LSTM_SEQUENCE = 8
WIKITEXT_SEQUENCE = 227
WIKITEXT_VOCABULARY = 29_423

YOLO_IMAGE = 640
YOLO_CLASSES = 80

"""Problems drawn at random, enumerations that share nothing with the searches but the model of cost, and attacks on what is called optimal."""
